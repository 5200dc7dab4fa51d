// Options of the verbs on models: archives, backends, inputs.
#include "cli/model_options.h"

#include "backend/backend.h"
#include "config/config.h"
#include "core/error.h"
#include "core/tensor/tensor_impl.h"
#include "formats/tensors.h"
#include "graph/text/parse.h"

#include <tenon/devices.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <filesystem>

#include <algorithm>
#include <charconv>

namespace tenon::cli {

void add_model_options(Options& app, ModelOptions& options) {
  add_archive_options(app, options);
  app.add_option("--mode", options.mode, "a mode of the backend, such as max-autotune");
  app.add_option("--device", options.device, "where it runs: cpu, cuda, cuda:1");
}

Device device_of(const ModelOptions& options) {
  if (options.device.empty()) return kCPU;
  std::optional<Device> device = parse_device(options.device);
  require(device && device->type != DeviceType::meta,
          "--device: expected a device such as cpu, cuda or cuda:1, found '{}'", options.device);
  std::string why = why_no_device(device->type);
  require(why.empty(), ErrorCode::plugin, "--device {}: {}", options.device, why);
  return *device;
}

std::vector<std::string> backend_names(const std::vector<std::string>& given) {
  std::vector<std::string> names = split_commas(given);
  if (names.empty()) names.push_back(default_backend());
  for (const std::string& name : names) backend_info(name);
  return names;
}

void leave_stdout_to_json() {
  for (const char* key : {"explain.to", "print.to"})
    config::presume(key, std::string("stderr"), "JSON on stdout");
}

void require_file_beside_json(const std::string& output, const Globals& globals) {
  require(output != "-" || !globals.json,
          "-o -: with --json stdout holds one JSON document; name a file, or leave --json out");
}

LoadedModel load_model(const std::string& path, const ModelOptions& options,
                       const std::string& backend, bool training) {
  LoadedModel model;
  if (graph_file_kind(path) == GraphFileKind::compiled) {
    bool asks = !options.mode.empty() || !options.program.empty() || options.random_weights ||
                device_of(options) != kCPU;
    require(!asks && !training,
            "{}: holds compiled code for inference with its own weights and options; take the "
            "archive that it was made from for others",
            path);
    SavedModel saved = read_saved_model(path, !options.no_crc);
    model.program = saved.program;
    model.runner = std::make_unique<ModelRunner>(std::move(saved));
    return model;
  }
  model.program =
      std::make_shared<const formats::Pt2Program>(formats::read_pt2(path, pt2_options(options)));
  RunnerOptions runner{backend,  options.mode,      options.options_toml, options.random_weights,
                       training, device_of(options)};
  model.runner = std::make_unique<ModelRunner>(model.program, runner);
  return model;
}

// ---- inputs

namespace {

/// "f32[1,3,224,224]:rand": what to make. Fills are rand (normal, or integers below 10), zeros,
/// ones and a number.
struct InputSpec {
  Dtype dtype = Dtype::f32;
  std::vector<int64_t> sizes;
  std::string fill = "rand";
};

[[noreturn]] void fail_spec(const std::string& spec) {
  fail(
      "--input {}: expected NAME=dtype[sizes]:fill such as x=f32[1,3]:rand, with the fill rand, "
      "zeros, ones or a number, or NAME=@file.npy",
      spec);
}

InputSpec parse_spec(const std::string& whole, const std::string& text) {
  InputSpec spec;
  size_t open = text.find('['), close = text.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) fail_spec(whole);
  auto dtype = parse_dtype(text.substr(0, open));
  if (!dtype) fail_spec(whole);
  spec.dtype = *dtype;
  for (const std::string& size : split_commas({text.substr(open + 1, close - open - 1)})) {
    int64_t value = -1;
    auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), value);
    if (error != std::errc() || end != size.data() + size.size() || value < 0) fail_spec(whole);
    spec.sizes.push_back(value);
  }
  if (close + 1 < text.size()) {
    if (text[close + 1] != ':') fail_spec(whole);
    spec.fill = text.substr(close + 2);
  }
  return spec;
}

/// Sizes that a user wrote and that no memory holds are a wrong argument, not a model that is not
/// supported.
void check_memory(const std::string& whole, const InputSpec& spec) {
  try {
    empty(SymIntList(spec.sizes), spec.dtype);
  } catch (const Error&) {
    fail("--input {}: there is no memory for a tensor of these sizes; use smaller ones", whole);
  }
}

Tensor make_input(const std::string& whole, const InputSpec& spec, uint64_t seed) {
  check_memory(whole, spec);
  if (spec.fill == "rand") return random_tensor(IntList(spec.sizes), spec.dtype, seed);
  double value = spec.fill == "ones" ? 1 : 0;
  if (spec.fill != "ones" && spec.fill != "zeros") {
    const char* end = spec.fill.data() + spec.fill.size();
    auto [rest, error] = std::from_chars(spec.fill.data(), end, value);
    if (error != std::errc() || rest != end) fail_spec(whole);
  }
  return full(SymIntList(spec.sizes), Number(value), spec.dtype);
}

size_t leaf_named(const ModelRunner& runner, const std::string& name) {
  const auto& leaves = runner.model().leaves;
  for (size_t i = 0; i < leaves.size(); ++i)
    if (leaves[i].name == name || name == message("in.{}", i)) return i;
  fail("the model has no input {}; it takes {}", name, formats::describe_leaves(runner.model()));
}

// Tensors of a recording that are not inputs.
bool is_result(const std::string& name) {
  for (const char* prefix : {"out.", "mut.", "buf.", "grad.", "sgd."})
    if (name.starts_with(prefix)) return true;
  return false;
}

Tensor given_input(const std::string& whole, const std::string& spec, uint64_t seed) {
  if (!spec.starts_with('@')) return make_input(whole, parse_spec(whole, spec), seed);
  auto content = formats::read_tensors(spec.substr(1));
  require(content.tensors.size() == 1,
          "--input {}: the file holds {} tensors, expected one; use "
          "--inputs for a file with all inputs",
          whole, content.tensors.size());
  return content.tensors.begin()->second;
}

}  // namespace

void add_input_options(Options& app, InputOptions& options) {
  app.add_option("--inputs", options.file,
                 "a .safetensors file with tensors in.0, in.1, ... or with the names of inputs");
  app.add_option("--input", options.specs,
                 "NAME=dtype[sizes]:fill or NAME=@file.npy; fills: rand, zeros, ones, a number")
      .one_at_a_time();
}

void fill_inputs(std::vector<Tensor>& inputs, const InputOptions& options,
                 const std::function<size_t(const std::string& name)>& find) {
  if (!options.file.empty()) {
    for (const auto& [name, tensor] : formats::read_tensors(options.file).tensors)
      if (!is_result(name)) inputs[find(name)] = tensor;
  }
  for (const std::string& spec : options.specs) {
    size_t equals = spec.find('=');
    if (equals == std::string::npos) fail_spec(spec);
    size_t at = find(spec.substr(0, equals));
    inputs[at] = given_input(spec, spec.substr(equals + 1), at);
  }
}

std::vector<Tensor> make_leaves(const LoadedModel& model, const InputOptions& options) {
  const ModelRunner& runner = *model.runner;
  std::vector<Tensor> leaves = random_leaves(runner.model(), *model.program);
  fill_inputs(leaves, options, [&](const std::string& name) { return leaf_named(runner, name); });
  for (Tensor& leaf : leaves)
    if (leaf.defined() && runner.device() != kCPU) leaf = leaf.to(runner.device(), leaf.dtype());
  return leaves;
}

Json stats_of(const std::string& text) {
  Json stats = formats::json_or_null(text);
  return stats.is_object() ? stats : Json(Json::Object{});
}

InputOptions or_recorded(InputOptions options, const std::string& model) {
  if (!options.file.empty() || !options.specs.empty()) return options;
  std::filesystem::path recording =
      std::filesystem::path(model).replace_extension(".io.safetensors");
  if (std::filesystem::exists(recording)) options.file = recording.string();
  return options;
}

}  // namespace tenon::cli
