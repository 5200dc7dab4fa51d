// `tenon bench-worker`: a peer of other engines, which takes its turns by lines on stdin.
#include "cli/bench/bench_timing.h"

#include "core/error.h"
#include "formats/tensors.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>

namespace tenon::cli {

namespace {

struct WorkerOptions {
  std::string model, backend;
  InputOptions inputs;
  ModelOptions options;
};

// The protocol wants one line an answer.
void answer(const Json& document) {
  print(document.dump() + "\n");
  std::fflush(stdout);
}

int work(const WorkerOptions& options) {
  leave_stdout_to_json();
  std::vector<std::string> given;
  if (!options.backend.empty()) given.push_back(options.backend);
  auto begin = std::chrono::steady_clock::now();
  LoadedModel model = load_model(options.model, options.options, backend_names(given)[0]);
  std::vector<Tensor> leaves = make_leaves(model, or_recorded(options.inputs, options.model));
  model.runner->run(leaves);
  std::chrono::duration<double> first = std::chrono::steady_clock::now() - begin;
  answer({{"ready", true}, {"first_s", first.count()}});
  for (std::string line; std::getline(std::cin, line);) {
    Json request = formats::json_or_null(line);
    bool fits = request["run_s"].is_number();
    require(fits, "expected a line {{\"run_s\": seconds}} on stdin, found {}", line);
    double seconds = request["run_s"].number();
    require(std::isfinite(seconds) && seconds >= 0, "run_s must not be negative, found {}", line);
    answer({{"us", time_calls(*model.runner, leaves, seconds)}});
  }
  return 0;
}

Action build_bench_worker(Options& app) {
  auto options = std::make_shared<WorkerOptions>();
  app.add_option("MODEL", options->model, "a .pt2 archive").required();
  app.add_option("--backend", options->backend, "the backend to compile with");
  add_input_options(app, options->inputs);
  add_model_options(app, options->options);
  return [options](const Globals&) { return work(*options); };
}

}  // namespace

extern constinit const Verb verb_bench_worker{
    .name = "bench-worker",
    .summary = "measures when told to by lines on stdin",
    .example = "tenon bench-worker resnet18.pt2 --backend inductor",
    .build = build_bench_worker,
    .hidden = true};

}  // namespace tenon::cli
