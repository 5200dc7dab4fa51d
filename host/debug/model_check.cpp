// Checking models: finding cases, running them, comparing what is recorded.
#include "debug/model_check.h"

#include "core/error.h"
#include "formats/tensors.h"
#include "ops/op_table.h"

#include <tenon/ops/view.h>
#include <tenon/random.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace tenon {

namespace fs = std::filesystem;
using formats::NamedTensors;

// ---- cases

namespace {

constexpr std::string_view recording_end = ".io.safetensors";

// The recordings of NAME.pt2, base sizes first.
std::vector<RecordedFile> recordings_of(const fs::path& archive) {
  std::vector<RecordedFile> found;
  std::string stem = (archive.parent_path() / archive.stem()).string();
  for (const char* kind : {"", ".alt"}) {
    std::string file = stem + kind + std::string(recording_end);
    if (fs::exists(file)) found.push_back({stem + kind, file});
  }
  return found;
}

void add_file(const fs::path& file, bool given, ModelCases& cases) {
  std::string name = file.string();
  bool has_code = file.extension() == ".tenon";
  if (file.extension() == ".pt2" || has_code) {
    std::vector<RecordedFile> recordings = recordings_of(file);
    require(!given || !recordings.empty(), ErrorCode::bad_file,
            "{}: there is no recording beside it; expected {}.io.safetensors", name,
            (file.parent_path() / file.stem()).string());
    if (!recordings.empty()) cases.models.push_back({name, std::move(recordings), has_code});
    return;
  }
  if (name.ends_with(recording_end)) return;
  if (file.extension() == ".safetensors")
    cases.op_cases.push_back(name);
  else
    require(
        !given, ErrorCode::bad_file,
        "{}: expected a .pt2 archive, a .tenon file, a file of op cases (.safetensors) or a folder",
        name);
}

}  // namespace

ModelCases find_cases(const std::vector<std::string>& paths) {
  ModelCases cases;
  for (const std::string& path : paths) {
    require(fs::exists(path), ErrorCode::bad_file, "{}: no such file or folder", path);
    if (!fs::is_directory(path)) {
      add_file(path, true, cases);
      continue;
    }
    std::vector<fs::path> files;
    auto skip = fs::directory_options::skip_permission_denied;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path, skip))
      if (entry.is_regular_file()) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) add_file(file, false, cases);
  }
  return cases;
}

// ---- one recording

namespace {

/// What a call left behind, by the names of recordings.
using Effects = std::map<std::string, Tensor>;

std::optional<size_t> index_after(const std::string& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  size_t index = 0;
  const char* end = name.data() + name.size();
  auto [rest, error] = std::from_chars(name.data() + prefix.size(), end, index);
  if (error != std::errc() || rest != end) return std::nullopt;
  return index;
}

// On the device; copies.
std::vector<Tensor> leaves_of(const NamedTensors& recording, size_t count, Device device = kCPU) {
  std::vector<Tensor> leaves(count);
  for (const auto& [name, tensor] : recording.tensors)
    if (auto i = index_after(name, "in."); i && *i < count)
      leaves[*i] = device == kCPU ? tensor.clone() : tensor.to(device, tensor.dtype());
  return leaves;
}

std::vector<Tensor> leaves_for(const ModelRunner& runner, const NamedTensors& recording) {
  return leaves_of(recording, runner.model().leaves.size(), runner.device());
}

// On the CPU; what is one tensor stays one.
Effects brought(Effects effects) {
  std::vector<std::pair<Tensor, Tensor>> known;
  for (auto& [name, tensor] : effects) {
    if (!tensor.defined() || tensor.device() == kCPU) continue;
    auto same = std::ranges::find_if(known, [&](const auto& k) { return k.first.is_same(tensor); });
    if (same == known.end())
      same = known.insert(same, {tensor, tensor.detach().to(kCPU, tensor.dtype())});
    tensor = same->second;
  }
  return effects;
}

Effects effects_of(const std::vector<Tensor>& outputs, const std::vector<Tensor>& leaves,
                   const std::map<std::string, Tensor>& gradients) {
  Effects effects;
  for (size_t i = 0; i < outputs.size(); ++i) effects[message("out.{}", i)] = outputs[i];
  for (size_t i = 0; i < leaves.size(); ++i) effects[message("mut.in.{}", i)] = leaves[i];
  for (const auto& [name, tensor] : gradients) effects["grad." + name] = tensor;
  return effects;
}

// Weights and generator as they are in the beginning: all backends draw the same random numbers.
void begin_anew(ModelRunner& runner) {
  runner.reset_weights();
  manual_seed(0);
}

Effects run_recording(ModelRunner& runner, const NamedTensors& recording) {
  begin_anew(runner);
  std::vector<Tensor> leaves = leaves_for(runner, recording);
  NamedTensorMap gradients;
  std::vector<Tensor> outputs = runner.run(leaves, &gradients);
  Effects effects = effects_of(outputs, leaves, gradients);
  for (const formats::ModelInput& input : runner.model().inputs)
    for (const std::string& name : input.names) effects["buf." + name] = input.tensor;
  return effects;
}

double rate_of_steps(const NamedTensors& recording) {
  auto rate = recording.metadata.find("sgd_lr");
  require(rate != recording.metadata.end(), ErrorCode::bad_file,
          "the recording has losses of training steps but no learning rate (sgd_lr)");
  return std::stod(rate->second);
}

// The recorded steps: plain SGD on the same batch.
Tensor losses_of_steps(ModelRunner& runner, const NamedTensors& recording, const Tensor& recorded) {
  double rate = rate_of_steps(recording);
  begin_anew(runner);
  std::vector<Tensor> losses;
  for (int64_t step = 0; step < recorded.numel().guard_int(); ++step) {
    NamedTensorMap gradients;
    std::vector<Tensor> leaves = leaves_for(runner, recording);
    losses.push_back(runner.run_with_gradients(leaves, gradients)[0].reshape({}));
    runner.sgd_step(rate);
  }
  return stack(losses);
}

Effects run_training(ModelRunner& runner, const NamedTensors& recording) {
  begin_anew(runner);
  std::vector<Tensor> leaves = leaves_for(runner, recording);
  NamedTensorMap gradients;
  std::vector<Tensor> outputs = runner.run_with_gradients(leaves, gradients);
  Effects effects = effects_of(outputs, leaves, gradients);
  for (const formats::ModelInput& input : runner.model().inputs)
    for (const std::string& name : input.names)
      if (!effects.contains("grad." + name)) effects["buf." + name] = input.tensor;
  auto losses = recording.tensors.find("sgd.losses");
  if (losses != recording.tensors.end())
    effects["sgd.losses"] = losses_of_steps(runner, recording, losses->second);
  return effects;
}

// Dropout and its kin draw nothing where they evaluate.
bool evaluates(const OpEntry& op, const Node& node) {
  for (size_t i = 0; i < node.args.size(); ++i) {
    std::string_view name = op.schema.args[i].name;
    const Value& arg = node.args[i];
    if ((name == "train" || name == "training") && arg.tag == Tag::boolean && !arg.payload)
      return true;
  }
  return false;
}

// The first operation that draws random numbers, or nothing.
std::string random_op_of(const Graph& graph) {
  auto draws = [](const Node& node) {
    const OpEntry& op = entry_of(node.op);
    return (op.tags & TN_TAG_RANDOM) != 0 && !evaluates(op, node);
  };
  auto found = std::ranges::find_if(graph.nodes(), draws);
  return found == graph.nodes().end() ? "" : entry_of(found->op).name;
}

// Whether the tape has to give what was recorded; a joint graph computes its gradients itself.
bool needs_training(const formats::ImportedModel& model, const NamedTensors& recording) {
  bool in_graph = std::any_of(model.outputs.begin(), model.outputs.end(), [](const auto& output) {
    return output.kind == formats::ModelOutputKind::gradient;
  });
  return !in_graph && std::any_of(recording.tensors.begin(), recording.tensors.end(),
                                  [](const auto& t) { return t.first.starts_with("grad."); });
}

Effects run_recording_in_double(const formats::Pt2Program& program, const NamedTensors& recording,
                                size_t n_leaves, bool training) {
  std::vector<Tensor> leaves = leaves_of(recording, n_leaves);
  manual_seed(0);
  DoubleRun run = run_in_double(program, leaves, training);
  Effects effects = effects_of(run.outputs, run.leaves, run.gradients);
  for (const auto& [name, tensor] : run.weights) effects["buf." + name] = tensor;
  auto losses = recording.tensors.find("sgd.losses");
  if (training && losses != recording.tensors.end())
    effects["sgd.losses"] = losses_in_double(program, leaves, rate_of_steps(recording),
                                             losses->second.numel().guard_int());
  return effects;
}

// Recorded names that this run answers: gradients and training steps where they were computed.
bool is_compared(const std::string& name, const Effects& effects) {
  if (name.starts_with("grad.") || name.starts_with("sgd.")) return effects.count(name) > 0;
  return name.starts_with("out.") || name.starts_with("mut.in.") || name.starts_with("buf.");
}

/// One archive with one backend, and what the verdicts need besides.
class Checker {
 public:
  Checker(const ModelCase& model, const std::string& backend, const CheckSettings& settings)
      : settings_(settings),
        runner_(runner_of(model, backend, settings, program_)),
        backend_(runner_->backend()) {
    require(!model.has_code || !settings.grad, "{}: holds code for inference only", model.archive);
  }

  void check(const RecordedFile& recording, CaseResult& result);

 private:
  static std::unique_ptr<ModelRunner> runner_of(
      const ModelCase& model, const std::string& backend, const CheckSettings& settings,
      std::shared_ptr<const formats::Pt2Program>& program);
  const Effects& double_effects();
  Effects run(const std::string& backend, std::unique_ptr<ModelRunner>& training,
              ModelRunner& plain) const;
  void refuse_other_gradients(const Effects& found, CaseResult& result) const;
  void judge_by_double(const std::string& name, const Tensor& found, const Tensor& base,
                       CheckedTensor& checked);

  const CheckSettings& settings_;
  std::shared_ptr<const formats::Pt2Program> program_;
  std::unique_ptr<ModelRunner> runner_, eager_, training_, eager_training_;
  std::string backend_;
  NamedTensors recording_;
  std::optional<Effects> double_;
};

std::unique_ptr<ModelRunner> Checker::runner_of(
    const ModelCase& model, const std::string& backend, const CheckSettings& settings,
    std::shared_ptr<const formats::Pt2Program>& program) {
  if (model.has_code) {
    SavedModel saved = read_saved_model(model.archive, settings.archive.check_crc);
    program = saved.program;
    return std::make_unique<ModelRunner>(std::move(saved));
  }
  program = std::make_shared<const formats::Pt2Program>(
      formats::read_pt2(model.archive, settings.archive));
  return std::make_unique<ModelRunner>(program, RunnerOptions{.backend = backend,
                                                              .mode = settings.mode,
                                                              .options_toml = settings.options_toml,
                                                              .device = settings.device});
}

// Empty where wider numbers have no place: a model may look at the bits of narrow ones.
const Effects& Checker::double_effects() {
  if (double_) return *double_;
  try {
    double_ = run_recording_in_double(*program_, recording_, runner_->model().leaves.size(),
                                      training_ != nullptr);
  } catch (const UserError&) {
    double_.emplace();
  }
  return *double_;
}

// The double run must agree with `base` roughly: an op that is wrong is wrong in every precision.
void Checker::judge_by_double(const std::string& name, const Tensor& found, const Tensor& base,
                              CheckedTensor& checked) {
  auto exact = double_effects().find(name);
  if (exact == double_effects().end() || !exact->second.defined()) return;
  CompareOptions rough{name.starts_with("grad."), true, 100};
  Comparison ours = compare_tensors(found, exact->second, rough);
  Comparison theirs = compare_tensors(base, exact->second, rough);
  if (!ours.problem.empty() || !theirs.problem.empty()) return;
  checked.double_error = ours.max_abs;
  checked.allowed_error = 2 * theirs.max_abs;
  checked.result.ok = theirs.ok && ours.max_abs <= 2 * theirs.max_abs;
}

// On the tape, if gradients are asked for and recorded; a gradient that is missing then differs.
Effects Checker::run(const std::string& backend, std::unique_ptr<ModelRunner>& training,
                     ModelRunner& plain) const {
  if (!settings_.grad || !needs_training(plain.model(), recording_))
    return run_recording(plain, recording_);
  if (!training)
    training = std::make_unique<ModelRunner>(program_,
                                             RunnerOptions{.backend = backend,
                                                           .mode = settings_.mode,
                                                           .options_toml = settings_.options_toml,
                                                           .training = true,
                                                           .device = plain.device()});
  Effects effects = run_training(*training, recording_);
  for (const auto& [name, recorded] : recording_.tensors)
    if (name.starts_with("grad.")) effects.try_emplace(name);
  return effects;
}

// Gradients of parameters that have none in PyTorch. A tied parameter is recorded by one of its
// names.
void Checker::refuse_other_gradients(const Effects& found, CaseResult& result) const {
  auto is_recorded = [&](const Tensor& gradient) {
    return std::ranges::any_of(recording_.tensors, [&](const auto& recorded) {
      auto ours = found.find(recorded.first);
      return recorded.first.starts_with("grad.") && ours != found.end() &&
             ours->second.is_same(gradient);
    });
  };
  for (const auto& [name, gradient] : found) {
    if (!name.starts_with("grad.") || !gradient.defined() || is_recorded(gradient)) continue;
    CheckedTensor checked{name, {}, {}, {}, {}};
    checked.result.problem = "expected no gradient, found one";
    result.ok = false;
    result.tensors.push_back(std::move(checked));
  }
}

void Checker::check(const RecordedFile& recording, CaseResult& result) {
  recording_ = formats::read_tensors(recording.file);
  double_.reset();
  result.backend = backend_;
  double compiled_before = runner_->compile_ms();
  Effects found = brought(run(backend_, training_, *runner_));
  result.compile_ms = runner_->compile_ms() - compiled_before;
  result.compiles = runner_->compiles();
  result.stats = runner_->describe(TN_DESC_STATS_JSON);
  Effects base = recording_.tensors;
  if (settings_.against != Against::reference) {
    if (!eager_) eager_ = std::make_unique<ModelRunner>(program_, RunnerOptions{"eager", {}, {}});
    base = run("eager", eager_training_, *eager_);
  }
  result.ok = true;
  for (const auto& [name, recorded] : recording_.tensors) {
    if (!is_compared(name, found)) continue;
    CheckedTensor checked{
        name,
        compare_tensors(found[name], base[name], {name.starts_with("grad."), false, 1}),
        {},
        {},
        {}};
    bool comparable = checked.result.problem.empty();
    if (comparable && (!checked.result.ok || settings_.against == Against::fp64))
      judge_by_double(name, found[name], base[name], checked);
    result.ok = result.ok && checked.result.ok;
    result.tensors.push_back(std::move(checked));
  }
  if (training_) refuse_other_gradients(found, result);
  std::string random = result.ok ? "" : random_op_of(*runner_->model().graph);
  if (!random.empty() && settings_.against == Against::reference)
    result.note = message(
        "the model draws random numbers ({}), others than PyTorch did; --against eager compares "
        "with what the host computes from the same ones",
        random);
}

}  // namespace

void note_error(CaseResult& result, const std::exception& error) {
  result.ok = false;
  result.error = error.what();
  auto ours = dynamic_cast<const Error*>(&error);
  result.code = ours ? ours->code() : ErrorCode::internal;
}

std::vector<CaseResult> check_model(const ModelCase& model, const std::string& backend,
                                    const CheckSettings& settings) {
  std::vector<CaseResult> results;
  for (const RecordedFile& recording : model.recordings) {
    results.emplace_back();
    results.back().name = recording.name;
    results.back().backend = backend;
  }
  std::unique_ptr<Checker> checker;
  for (size_t i = 0; i < results.size(); ++i) {
    try {
      if (!checker) checker = std::make_unique<Checker>(model, backend, settings);
      checker->check(model.recordings[i], results[i]);
    } catch (const std::exception& error) {
      note_error(results[i], error);
    }
  }
  return results;
}

}  // namespace tenon
