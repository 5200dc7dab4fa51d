// `tenon bench-compile`, and running it in child processes with a cache folder of their own.
#include "cli/bench/cold_start.h"

#include "cli/bench/process_memory.h"
#include "cli/exit_status.h"
#include "cli/temporary_folder.h"
#include "core/error.h"
#include "core/joined.h"
#include "debug/child_process.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace tenon::cli {

namespace {

namespace fs = std::filesystem;

void add(std::vector<std::string>& line, const std::string& name, const std::string& value) {
  if (!value.empty()) line.push_back(name + "=" + value);
}

std::vector<std::string> command_line(const std::string& path, const std::string& backend,
                                      const InputOptions& inputs, const ModelOptions& options,
                                      const Globals& globals) {
  std::vector<std::string> line{"tenon", "bench-compile", path, "--backend=" + backend, "-q"};
  add(line, "--program", options.program);
  add(line, "--max-size", options.max_size);
  add(line, "--mode", options.mode);
  if (options.no_crc) line.push_back("--no-crc");
  if (options.random_weights) line.push_back("--random-weights");
  add(line, "--device", options.device);
  add(line, "--inputs", inputs.file);
  for (const std::string& spec : inputs.specs) add(line, "--input", spec);
  for (const std::string& setting : globals.settings) add(line, "--set", setting);
  add(line, "--config", globals.config_file);
  if (globals.threads) add(line, "--threads", std::to_string(globals.threads));
  for (const std::string& plugin : globals.plugins) add(line, "--plugin", plugin);
  add(line, "--plugin-path", joined(globals.plugin_path, ":"));
  return line;
}

// What a child says of an error is what this program would say.
[[noreturn]] void fail_as(const ChildEnd& end) {
  std::string_view log = end.log, name = "tenon: ";
  if (log.starts_with(name)) log.remove_prefix(name.size());
  while (log.ends_with('\n')) log.remove_suffix(1);
  if (end.exit_status != 0) throw ChildFailure(end.exit_status, std::string(log));
  std::string how = end.signal != 0 ? message("was ended by signal {}", end.signal)
                    : end.timed_out ? "did not end"
                                    : "gave no times";
  fail("compiling in a process of its own {}: {}", how, log);
}

Start run_child(const std::vector<std::string>& line, const fs::path& cache) {
  constexpr double limit_s = 3600;
  std::string answer;
  ChildEnd end = watch_self(line, limit_s, [&](std::string_view text) { answer = text; },
                            {"TENON_CACHE_DIR=" + cache.string()});
  Json found = formats::json_or_null(answer);
  if (end.exit_status != 0 || end.signal != 0 || !found.is_object()) fail_as(end);
  return {found["compile_ms"].number(), static_cast<uint64_t>(found["peak_bytes"].integer())};
}

struct CompileOptions {
  std::string model, backend;
  InputOptions inputs;
  ModelOptions options;
};

int compile_once(const CompileOptions& options) {
  leave_stdout_to_json();
  std::string backend = backend_names({options.backend})[0];
  LoadedModel model = load_model(options.model, options.options, backend);
  std::vector<Tensor> leaves = make_leaves(model, or_recorded(options.inputs, options.model));
  reset_peak_memory();
  model.runner->compile(leaves);
  model.runner->run(leaves);
  Json answer{{"compile_ms", model.runner->compile_ms()}, {"peak_bytes", peak_memory()}};
  std::string text = answer.dump() + "\n";
  ssize_t written = ::write(child_lines_file, text.data(), text.size());
  require(written == static_cast<ssize_t>(text.size()),
          "file {} is not open: bench starts this verb", child_lines_file);
  return 0;
}

Action build_cold_start(Options& app) {
  auto options = std::make_shared<CompileOptions>();
  app.add_option("MODEL", options->model, "a .pt2 archive").required();
  app.add_option("--backend", options->backend, "the backend to compile with").required();
  add_input_options(app, options->inputs);
  add_model_options(app, options->options);
  return [options](const Globals&) { return compile_once(*options); };
}

}  // namespace

Starts measure_starts(const std::string& path, const std::string& backend,
                      const InputOptions& inputs, const ModelOptions& options,
                      const Globals& globals) {
  TemporaryFolder cache("tenon-bench-");
  std::vector<std::string> line = command_line(path, backend, inputs, options, globals);
  Start cold = run_child(line, cache.path);
  return {cold, run_child(line, cache.path)};
}

extern constinit const Verb verb_bench_compile{
    .name = "bench-compile",
    .summary = "compiles once for bench, which starts it",
    .example = "tenon bench resnet18.pt2 --backend inductor",
    .build = build_cold_start,
    .hidden = true};

}  // namespace tenon::cli
