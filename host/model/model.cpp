// tenon::load and Model: the public face of model_runner.h.
#include <tenon/model.h>

#include "backend/backend.h"
#include "core/error.h"
#include "graph/record.h"
#include "model/model_runner.h"
#include "model/model_tree.h"
#include "runtime/call.h"

namespace tenon {

using formats::ImportedModel;
using formats::LeafKind;
using formats::ModelInput;
using formats::ModelInputKind;
using formats::ModelLeaf;
using formats::ModelOutput;
using formats::ModelOutputKind;
using formats::Pt2Sym;

struct Model::State {
  State(std::shared_ptr<const formats::Pt2Program> program, RunnerOptions options)
      : runner(std::move(program), std::move(options)) {}
  explicit State(SavedModel saved) : runner(std::move(saved)) {}
  ModelRunner runner;
  const ImportedModel& model() const { return runner.model(); }
};

// A file of compiled code has them all settled.
static void check_own_options(const std::string& path, const LoadOptions& options) {
  bool asks = !options.backend.empty() || !options.mode.empty() || !options.options.empty() ||
              !options.program.empty() || options.random_weights || options.training;
  require(
      !asks,
      "{}: holds compiled code for inference, with its own backend, options and weights; load the "
      "archive that it was made from for others",
      path);
}

// A mistake is an error now, not at the first call.
static void check_backend(const std::string& backend, const LoadOptions& options) {
  std::string flags = option_texts(options.options).flags;
  require(flags.empty(), ErrorCode::config,
          "load: expected options of backend '{}', found the flag {}; set it with config::set() or "
          "config::patch()",
          backend, flags.substr(0, flags.find('\n')));
  detail::check_options({.backend = backend, .mode = options.mode, .options = options.options});
}

// In a body, too, the weights are tensors that it has found.
Model load(const std::string& path, const LoadOptions& options) {
  PauseRecording while_it_is_read;
  if (is_saved_model(path)) {
    check_own_options(path, options);
    SavedModel saved = read_saved_model(path, options.check_crc);
    require(
        options.device == kCPU || options.device == saved.device,
        "{}: its code is for {}, found LoadOptions::device {}; leave the option off, or compile "
        "the archive for that device",
        path, saved.device, options.device);
    return Model(std::make_shared<Model::State>(std::move(saved)));
  }
  std::string backend = options.backend.empty() ? default_backend() : options.backend;
  check_backend(backend, options);
  formats::Pt2Options reading;
  reading.program = options.program;
  reading.check_crc = options.check_crc;
  reading.max_size = options.max_size;
  reading.random_weights = options.random_weights;
  RunnerOptions running{backend,
                        options.mode,
                        option_texts(options.options).backend,
                        options.random_weights,
                        options.training,
                        options.device};
  auto program = std::make_shared<const formats::Pt2Program>(formats::read_pt2(path, reading));
  return Model(std::make_shared<Model::State>(std::move(program), std::move(running)));
}

Tree Model::call(const std::vector<Tree>& positional, const Arguments& named,
                 Gradients* gradients) const {
  std::vector<Tensor> leaves = flatten_arguments(state_->model(), positional, named);
  std::vector<Tensor> results = state_->runner.run(leaves, gradients);
  return unflatten_results(state_->model(), state_->runner.program(), results);
}

void Model::prepare(const std::vector<Tree>& positional, const Arguments& named) const {
  state_->runner.compile(flatten_arguments(state_->model(), positional, named));
}

// ---- what it takes and gives

namespace {

SizeSpec size_spec(const Pt2Sym& size, const std::vector<formats::Pt2Range>& ranges) {
  SizeSpec spec;
  spec.text = to_text(size);
  if (!size.is_symbolic()) {
    spec.fixed = size.expr->integer();
    return spec;
  }
  for (const formats::Pt2Range& range : ranges) {
    if (!size.expr || range.expr != size.expr) continue;
    spec.min = range.min;
    spec.max = range.max;
  }
  return spec;
}

std::vector<SizeSpec> size_specs(const std::vector<Pt2Sym>& sizes, const ImportedModel& model) {
  std::vector<SizeSpec> specs;
  for (const Pt2Sym& size : sizes) specs.push_back(size_spec(size, model.ranges));
  return specs;
}

}  // namespace

std::vector<ValueSpec> Model::inputs() const {
  const ImportedModel& model = state_->model();
  std::vector<ValueSpec> specs;
  for (const ModelLeaf& leaf : model.leaves) {
    ValueSpec spec;
    spec.name = leaf.name;
    spec.kind = leaf.kind == LeafKind::tensor   ? ValueSpec::Kind::tensor
                : leaf.kind == LeafKind::number ? ValueSpec::Kind::number
                                                : ValueSpec::Kind::constant;
    spec.dtype = leaf.dtype;
    spec.sizes = size_specs(leaf.sizes, model);
    spec.constant = constant_tree(leaf.constant);
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<ValueSpec> Model::outputs() const {
  const formats::Pt2Program& program = state_->runner.program();
  std::vector<ValueSpec> specs;
  for (const formats::Pt2Output& output : program.outputs) {
    bool is_user = output.kind == formats::Pt2OutputKind::user_output ||
                   output.kind == formats::Pt2OutputKind::loss_output;
    if (!is_user) continue;
    ValueSpec spec;
    spec.name = message("out.{}", specs.size());
    if (output.value.kind == formats::Pt2Kind::tensor) {
      const formats::Pt2TensorMeta& meta = program.graph.tensors.at(output.value.text);
      spec.dtype = meta.dtype;
      spec.sizes = size_specs(meta.sizes, state_->model());
    } else if (output.value.kind == formats::Pt2Kind::symbol) {
      spec.kind = ValueSpec::Kind::number;
    } else {
      spec.kind = ValueSpec::Kind::constant;
      spec.constant = constant_tree(output.value);
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<std::string> Model::argument_names() const { return state_->model().argument_names; }

std::string to_text(const ValueSpec& spec) {
  if (spec.kind == ValueSpec::Kind::number) return spec.name + ": a number";
  if (spec.kind == ValueSpec::Kind::constant) return spec.name + " = " + to_text(spec.constant);
  std::string sizes, ranges;
  for (const SizeSpec& size : spec.sizes) {
    sizes += (sizes.empty() ? "" : ", ") + size.text;
    if (size.fixed || (!size.min && !size.max)) continue;
    ranges += message("{}{} from {} to {}", ranges.empty() ? " with " : ", ", size.text,
                      size.min ? std::to_string(*size.min) : "-inf",
                      size.max ? std::to_string(*size.max) : "inf");
  }
  return message("{}: {}[{}]{}", spec.name, spec.dtype, sizes, ranges);
}

// ---- weights

namespace {

bool is_parameter(const ModelInput& input) { return input.kind == ModelInputKind::parameter; }
bool is_buffer(const ModelInput& input) {
  return input.kind == ModelInputKind::buffer || input.kind == ModelInputKind::constant;
}

std::vector<std::string> weight_names(const ImportedModel& model,
                                      bool (*wanted)(const ModelInput&)) {
  std::vector<std::string> names;
  for (const ModelInput& input : model.inputs)
    if (wanted(input)) names.insert(names.end(), input.names.begin(), input.names.end());
  return names;
}

Tensor find_weight(const ModelRunner& runner, std::string_view name, const char* kind,
                   bool (*wanted)(const ModelInput&)) {
  std::vector<std::string> names = weight_names(runner.model(), wanted);
  bool known = std::find(names.begin(), names.end(), name) != names.end();
  require(known, "{}: the model has no {} {}; did you mean {}?", runner.model().file, kind, name,
          names.empty() ? "another model, as this one has none" : nearest_names(name, names));
  return runner.weight(std::string(name));
}

}  // namespace

std::vector<std::string> Model::parameter_names() const {
  return weight_names(state_->model(), is_parameter);
}
std::vector<std::string> Model::buffer_names() const {
  return weight_names(state_->model(), is_buffer);
}
Tensor Model::parameter(std::string_view name) const {
  return find_weight(state_->runner, name, "parameter", is_parameter);
}
Tensor Model::buffer(std::string_view name) const {
  return find_weight(state_->runner, name, "buffer", is_buffer);
}

void Model::save(const std::string& path) const { state_->runner.save(path); }

size_t Model::compiles() const { return state_->runner.compiles(); }
double Model::compile_ms() const { return state_->runner.compile_ms(); }
std::string Model::file() const { return state_->model().file; }
std::string Model::name() const { return state_->model().name; }

}  // namespace tenon
