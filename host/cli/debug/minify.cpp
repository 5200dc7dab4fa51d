// `tenon minify`: the smallest graph on which a backend still fails in the same way.
#include "cli/debug/failing_model.h"
#include "cli/output.h"
#include "core/error.h"
#include "debug/graph_runner.h"
#include "debug/minify/judge.h"
#include "debug/minify/repro_folder.h"

namespace tenon::cli {

namespace {

struct MinifyOptions {
  FailingModel failing;
  std::string output = "minified";
  std::string known_values, half;
  int regions = -1;
  bool judges = false, is_watched = false;
};

// ---- the child: runs the graph once and compares it with double precision

int judge(const MinifyOptions& options) {
  Candidate candidate = read_candidate(options.failing);
  auto tell = [&](std::string_view stage) {
    if (options.is_watched) tell_parent(stage);
  };
  std::string wrong = judge_graph(clone(*candidate.graph), candidate.inputs,
                                  {options.failing.backend,
                                   options.failing.model.mode,
                                   options.failing.grad,
                                   {half_named(options.half), options.regions}},
                                  tell);
  if (wrong.empty()) return 0;
  print_message("wrong: " + wrong);
  return wrong_results_status;
}

int keep_known_values(const MinifyOptions& options) {
  Candidate candidate = read_candidate(options.failing);
  write_known_values(clone(*candidate.graph), candidate.inputs, options.known_values);
  return 0;
}

// ---- the parent

void report(const MinifyOptions& options, const Globals& globals, const Minified& result,
            size_t before) {
  size_t after = result.smallest.graph->nodes().size();
  if (globals.json)
    print_json({{"schema", 1},
                {"before", before},
                {"after", after},
                {"inputs", result.smallest.graph->inputs().size()},
                {"outputs", result.smallest.graph->outputs().size()},
                {"tries", result.tries},
                {"kind", std::string(name_of(result.failure.kind))},
                {"failure", result.failure.text},
                {"folder", options.output}});
  else
    print(message("{} of {} nodes fail alike: {}\n{}/command.sh runs them again\n", after, before,
                  result.failure.text, options.output));
}

int run_minify(MinifyOptions options, const Globals& globals) {
  Candidate whole = read_candidate(options.failing);
  std::string backend = backend_of(options.failing);
  size_t before = whole.graph->nodes().size();
  JudgeInChildren children(options.failing, globals);
  auto tell = [&](const SearchProgress& progress) {
    if (!globals.quiet) print_message(to_text(progress));
  };
  Minified result = minify_in_children(children.judge(), whole, backend, tell);
  if (!result.failure) {
    if (globals.json)
      print_json({{"schema", 1}, {"before", before}, {"failure", nullptr}});
    else
      print(message("{}: {} nodes run without a failure; nothing to do\n", options.failing.subject,
                    before));
    return 0;
  }
  write_repro_folder(options.output, result.smallest, result.failure,
                     {backend, options.failing.model.mode, options.failing.grad, globals.plugins});
  report(options, globals, result, before);
  return 1;
}

Action build_minify(Options& app) {
  auto options = std::make_shared<MinifyOptions>();
  add_failing_model_options(app, options->failing);
  app.add_option("-o,--output", options->output, "the folder for what is left");
  app.add_flag("--judge", options->judges,
               "only run the graph and compare it with double precision");
  app.add_option("--half", options->half, "with --judge: of training, what the backend runs")
      .hidden();
  app.add_option("--regions", options->regions, "with --judge: how many the backend gets").hidden();
  app.add_flag("--watched", options->is_watched, "tell the parent process of each stage").hidden();
  app.add_option("--known-values", options->known_values, "only write the values of a run")
      .hidden();
  return [options](const Globals& globals) {
    if (!options->known_values.empty()) return keep_known_values(*options);
    return options->judges ? judge(*options) : run_minify(*options, globals);
  };
}

}  // namespace

extern constinit const Verb verb_minify{
    .name = "minify",
    .summary = "the smallest graph on which a backend still fails in the same way",
    .example = "tenon minify bert.pt2 --backend mine -o smallest",
    .build = build_minify};

}  // namespace tenon::cli
