// `tenon compile`: a model with its code in one file.
#include "cli/model_options.h"

#include "backend/backend.h"
#include "core/error.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace tenon::cli {

namespace {

struct CompileOptions {
  std::string model, output, backend, cpu;
  InputOptions inputs;
  ModelOptions options;
};

// Which processors there are is known to the backend: one that it refuses is a wrong value.
LoadedModel compiled(const CompileOptions& options, const std::string& backend) {
  try {
    LoadedModel model = load_model(options.model, options.options, backend);
    model.runner->compile(make_leaves(model, or_recorded(options.inputs, options.model)));
    return model;
  } catch (const BackendError& error) {
    if (options.cpu.empty() || error.status() != TN_INVALID_ARGUMENT) throw;
    std::string_view text = error.what();
    text.remove_prefix(std::min(text.size(), name_of(error.code()).size() + 2));
    fail("--cpu {}: {}", options.cpu, text);
  }
}

int compile(CompileOptions options, const Globals& globals) {
  if (globals.json) leave_stdout_to_json();
  require(graph_file_kind(options.model) == GraphFileKind::archive,
          "{}: expected a .pt2 archive, which has the weights and names that a program needs",
          options.model);
  require(options.output != "-", "-o -: compiled code goes into a file; name one, such as m.tenon");
  std::vector<std::string> given;
  if (!options.backend.empty()) given.push_back(options.backend);
  std::string backend = backend_names(given)[0];
  if (!options.cpu.empty()) options.options.options_toml = message("cpu = \"{}\"\n", options.cpu);

  LoadedModel model = compiled(options, backend);
  model.runner->save(options.output);

  auto bytes = static_cast<int64_t>(std::filesystem::file_size(options.output));
  Json stats = stats_of(model.runner->describe(TN_DESC_STATS_JSON));
  Json document{{"schema", 1},
                {"model", options.model},
                {"file", options.output},
                {"backend", backend},
                {"cpu", std::as_const(stats)["cpu"]},
                {"bytes", bytes},
                {"compile_ms", model.runner->compile_ms()},
                {"fallback_ops", stats["extern_ops"]}};
  if (globals.json) {
    print_json(document);
    return 0;
  }
  std::string cpu = document["cpu"].is_text() ? document["cpu"].text() : "";
  if (!cpu.empty()) cpu = " for " + cpu;
  print(message("{}: {} bytes, code of {}{}, compiled in {} ms\n", options.output, bytes, backend,
                cpu, std::round(model.runner->compile_ms() * 10) / 10));
  return 0;
}

Action build_compile(Options& app) {
  auto options = std::make_shared<CompileOptions>();
  app.add_option("MODEL", options->model, "a .pt2 archive").required();
  app.add_option("-o,--output", options->output, "the file to write, NAME.tenon").required();
  app.add_option("--backend", options->backend, "the backend to compile with");
  app.add_option("--cpu", options->cpu,
                 "the processor to compile for, such as x86-64-v3; without it, this one");
  add_input_options(app, options->inputs);
  add_model_options(app, options->options);
  return [options](const Globals& globals) { return compile(*options, globals); };
}

}  // namespace

extern constinit const Verb verb_compile{
    .name = "compile",
    .summary = "writes a model with its code into a file that runs without a compiler",
    .example = "tenon compile resnet18.pt2 -o resnet18.tenon --cpu x86-64-v3",
    .build = build_compile};

}  // namespace tenon::cli
