// `tenon trace`: what a model or a program did and when, as one file for Perfetto.
#include "cli/model_options.h"
#include "cli/temporary_folder.h"
#include "cli/trace/child_program.h"
#include "cli/trace/trace_files.h"
#include "core/error.h"
#include "debug/graph_runner.h"
#include "report/events.h"

#include <tenon/config.h>

#include <filesystem>

namespace tenon::cli {

namespace {

struct TraceOptions {
  std::vector<std::string> command;  // a model, or a program with its arguments
  std::string backend, output;
  int repeat = 3;
  bool grad = false;
  InputOptions inputs;
  ModelOptions archive;
};

void run_archive(const TraceOptions& options, const std::string& backend) {
  LoadedModel model = load_model(options.command[0], options.archive, backend, options.grad);
  std::vector<Tensor> leaves = make_leaves(model, or_recorded(options.inputs, options.command[0]));
  NamedTensorMap gradients;
  for (int i = 0; i < options.repeat; ++i)
    options.grad ? model.runner->run_with_gradients(leaves, gradients) : model.runner->run(leaves);
}

void run_graph(const TraceOptions& options, const std::string& backend) {
  GraphRunner runner(load_graph(options.command[0], options.archive),
                     {backend, options.archive.mode, "", false});
  std::vector<Tensor> inputs = runner.random_inputs();
  fill_inputs(inputs, options.inputs, [&](const std::string& name) { return runner.find(name); });
  for (int i = 0; i < options.repeat; ++i) runner.run(inputs);
}

bool is_model(const std::string& path) {
  for (std::string_view end : {".pt2", ".tenon", ".tng", ".json"})
    if (path.ends_with(end)) return true;
  return false;
}

void run_model(const TraceOptions& options, const std::string& folder) {
  config::set("logging.trace", folder);
  report::restart_trace();
  GraphFileKind kind = graph_file_kind(options.command[0]);
  bool is_compiled = kind == GraphFileKind::compiled;
  std::vector<std::string> given;
  if (!options.backend.empty()) given.push_back(options.backend);
  std::string backend = is_compiled ? "" : backend_names(given)[0];
  if (kind == GraphFileKind::archive || is_compiled)
    run_archive(options, backend);
  else
    run_graph(options, backend);
  config::set("logging.trace", std::string());
  report::restart_trace();  // writes no more, so that the files are whole
}

// How the program ended, 0 where it ended well.
int run_program(const TraceOptions& options, const std::string& folder) {
  require(options.backend.empty() && !options.grad && options.inputs.specs.empty(),
          "{} is a program, not a model; leave out --backend, --grad and --input, which are for "
          "models",
          options.command[0]);
  int status = run_child_program(options.command, {"TENON_TRACE=" + folder});
  require(status != 127, ErrorCode::bad_file, "{}: cannot be started; is it a program?",
          options.command[0]);
  if (status != 0)
    print_message(message("{} ended with status {}; the trace shows what came before",
                          options.command[0], status));
  return status;
}

std::string name_of_output(const TraceOptions& options) {
  if (!options.output.empty()) return options.output;
  return std::filesystem::path(options.command[0]).stem().string() + ".trace.json";
}

int trace(const TraceOptions& options, const Globals& globals) {
  if (globals.json) leave_stdout_to_json();
  require_file_beside_json(options.output, globals);
  TemporaryFolder folder("tenon-trace-");
  bool models = is_model(options.command[0]);
  require(!models || options.command.size() == 1, "{} is a model, and takes no arguments; found {}",
          options.command[0], models && options.command.size() > 1 ? options.command[1] : "");
  int status = 0;
  if (models)
    run_model(options, folder.path.string());
  else
    status = run_program(options, folder.path.string());
  MergedTrace merged = merge_traces(folder.path.string(), options.command[0]);
  require(merged.n_events > 0, ErrorCode::bad_file,
          "{}: has left no event; does the program compile anything with Tenon, and end?",
          options.command[0]);
  std::string file = name_of_output(options);
  write_output(file, merged.json);
  if (globals.json)
    print_json({{"schema", 1},
                {"file", file},
                {"events", merged.n_events},
                {"processes", merged.n_processes},
                {"status", status}});
  else if (file != "-")
    print(message("{} events of {} process{} written to {}; open it in ui.perfetto.dev\n",
                  merged.n_events, merged.n_processes, merged.n_processes == 1 ? "" : "es", file));
  return status == 0 ? 0 : 1;
}

Action build_trace(Options& app) {
  auto options = std::make_shared<TraceOptions>();
  app.add_option("COMMAND", options->command,
                 "a model (.pt2, .tng, .tng.json, .tenon), or -- and a program with its arguments")
      .required();
  app.add_option("--backend", options->backend, "the backend to compile a model with");
  app.add_option("-o,--output", options->output, "the file to write; NAME.trace.json unless given");
  app.add_option("--repeat", options->repeat, "calls of a model").within(1, 1 << 20);
  app.add_flag("--grad", options->grad, "training steps of an archive instead of calls");
  add_archive_options(app, options->archive);
  add_input_options(app, options->inputs);
  return [options](const Globals& globals) { return trace(*options, globals); };
}

}  // namespace

extern constinit const Verb verb_trace{
    .name = "trace",
    .summary = "writes what a model or a program did and when, for ui.perfetto.dev",
    .example =
        "tenon trace vit.pt2 --backend inductor -o vit.json\n"
        "  tenon trace -o train.json -- ./train --epochs 1",
    .build = build_trace};

}  // namespace tenon::cli
