// Reading a failing model, and the command lines of those who judge it.
#include "cli/debug/failing_model.h"

#include "config/config.h"
#include "core/error.h"
#include "core/tensor/tensor_impl.h"
#include "debug/graph_runner.h"
#include "formats/pt2/pt2_call.h"

#include <filesystem>

namespace tenon::cli {

namespace fs = std::filesystem;

void add_failing_model_options(Options& app, FailingModel& options) {
  app.add_option("MODEL", options.subject, "a graph, an archive, or the folder of a repro")
      .required();
  app.add_option("--backend", options.backend, "the backend that fails");
  app.add_option("--mode", options.model.mode, "a mode of the backend");
  app.add_flag("--grad", options.grad,
               "also the gradients with respect to parameters, or to all floating inputs");
  app.add_option("--time", options.limit_s, "seconds after which a run counts as hanging")
      .positive();
  app.add_option("--keep-error", options.keep_error, "only failures whose message has this text");
  add_input_options(app, options.inputs);
  add_archive_options(app, options.model);
}

namespace {

bool is_file(const fs::path& path) {
  std::error_code failed;
  return fs::is_regular_file(path, failed);
}

bool is_folder(const std::string& path) {
  std::error_code failed;
  return fs::is_directory(path, failed);
}

// A folder is that of a repro: its graph, its flags, its inputs.
std::string graph_in(const std::string& folder) {
  for (const char* name : {"graph.tng", "repro.tng", "replay.tng"})
    if (fs::path path = fs::path(folder) / name; is_file(path)) return path.string();
  fail(
      "{} has no graph.tng, repro.tng or replay.tng; expected the folder of a repro, a graph or an "
      "archive",
      folder);
}

Candidate candidate_of_graph(const FailingModel& options, const std::string& path) {
  std::shared_ptr<Graph> graph = load_graph(path, options.model);
  GraphRunner names(graph, {"eager", "", "", false});
  Candidate out{graph, std::vector<Tensor>(graph->inputs().size())};
  fill_inputs(out.inputs, options.inputs,
              [&](const std::string& name) { return names.find(name); });
  return out;
}

// Weights are inputs of the graph, with their values.
Candidate candidate_of_archive(const FailingModel& options, const std::string& path) {
  LoadedModel model = load_model(path, options.model, "eager");
  std::vector<Tensor> leaves = make_leaves(model, or_recorded(options.inputs, path));
  const formats::ImportedModel& imported = model.runner->model();
  formats::BoundCall call = bind_call(imported, leaves);
  Candidate out{clone(*imported.graph), {}};
  for (detail::TensorHead* head : call.inputs)
    out.inputs.push_back(head ? share(head).clone() : Tensor());
  return out;
}

}  // namespace

void use_flags_of(const std::string& folder) {
  fs::path flags = fs::path(folder) / "flags.toml";
  if (is_file(flags)) config::use_file(flags.string());
  config::set("compiler.record_calls", std::string("off"));
}

Candidate read_candidate(const FailingModel& options) {
  FailingModel here = options;
  std::string path = options.subject;
  if (is_folder(path)) {
    path = graph_in(options.subject);
    use_flags_of(options.subject);
    fs::path inputs = fs::path(options.subject) / "inputs.safetensors";
    if (here.inputs.file.empty() && is_file(inputs)) here.inputs.file = inputs.string();
  }
  return graph_file_kind(path) == GraphFileKind::archive ? candidate_of_archive(here, path)
                                                         : candidate_of_graph(here, path);
}

std::string backend_of(const FailingModel& options) {
  return backend_names(options.backend.empty() ? std::vector<std::string>()
                                               : std::vector<std::string>{options.backend})[0];
}

std::vector<std::string> arguments_of(const Globals& globals) {
  std::vector<std::string> out;
  auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) out.insert(out.end(), {name, value});
  };
  add("--config", globals.config_file);
  if (globals.threads) add("--threads", std::to_string(globals.threads));
  for (const std::string& s : globals.settings) add("--set", s);
  for (const std::string& s : globals.plugins) add("--plugin", s);
  for (const std::string& s : globals.plugin_path) add("--plugin-path", s);
  return out;
}

namespace {

// The flags of a repro's folder go along with each candidate.
std::vector<std::string> child_arguments(const FailingModel& options, const Globals& globals) {
  std::vector<std::string> out{"tenon", "minify"};
  std::vector<std::string> shared = arguments_of(globals);
  out.insert(out.end(), shared.begin(), shared.end());
  if (!options.model.mode.empty()) out.insert(out.end(), {"--mode", options.model.mode});
  if (options.grad) out.emplace_back("--grad");
  return out;
}

}  // namespace

JudgeInChildren::JudgeInChildren(const FailingModel& options, const Globals& globals)
    : work_("tenon-minify-"),
      judge_({child_arguments(options, globals), work_.path.string(), options.limit_s,
              options.keep_error}) {
  fs::path flags = fs::path(options.subject) / "flags.toml";
  if (is_folder(options.subject) && is_file(flags)) fs::copy_file(flags, work_.path / "flags.toml");
}

std::string to_text(const SearchProgress& progress) {
  auto many = [](size_t n, std::string_view what) {
    return message("{} {}{}", n, what, n == 1 ? "" : "s");
  };
  return message("{}, {}, {}, {} after {} tries", many(progress.nodes, "node"),
                 many(progress.inputs, "input"), many(progress.outputs, "output"),
                 many(static_cast<size_t>(progress.elements), "element"), progress.tries);
}

}  // namespace tenon::cli
