// `tenon bench`: compile times and latencies of models, backends taking turns.
#include "cli/bench/bench_timing.h"
#include "cli/bench/cold_start.h"
#include "cli/bench/measured.h"
#include "cli/bench/process_memory.h"

#include "backend/backend.h"
#include "core/error.h"
#include "core/threads/thread_pool.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace tenon::cli {

namespace {

struct BenchOptions {
  std::vector<std::string> models, backends;
  int rounds = 5;
  std::string time = "3s";
  InputOptions inputs;
  ModelOptions options;
};

/// One backend on one model.
struct Runner {
  std::string backend;
  LoadedModel model;
  std::vector<Tensor> leaves;
  Starts starts;
  double overhead_us = -1;          ///< negative: the backend does not tell
  std::vector<double> us, medians;  ///< of all calls; of each round
};

Runner make_runner(const std::string& path, const std::string& backend, const BenchOptions& options,
                   const Globals& globals) {
  Runner r;
  r.backend = backend;
  r.starts = measure_starts(path, backend, options.inputs, options.options, globals);
  double turn = parse_seconds(options.time) / options.rounds;
  r.overhead_us = measure_model(path, options.options, options.inputs, backend, turn).overhead_us;
  r.model = load_model(path, options.options, backend);
  r.leaves = make_leaves(r.model, or_recorded(options.inputs, path));
  r.model.runner->compile(r.leaves);
  return r;
}

void run_round(Runner& r, double seconds) {
  std::vector<double> us = time_calls(*r.model.runner, r.leaves, seconds);
  r.us.insert(r.us.end(), us.begin(), us.end());
  std::sort(us.begin(), us.end());
  r.medians.push_back(quantile(us, 0.5));
}

// Medians of rounds that differ by more than a tenth say more about the machine than the code.
bool is_noisy(const Runner& r) {
  auto [least, most] = std::minmax_element(r.medians.begin(), r.medians.end());
  return *most > 1.1 * *least;
}

Json to_json(Runner& r, const std::string& path, double eager_us) {
  std::sort(r.us.begin(), r.us.end());
  double median = quantile(r.us, 0.5);
  Json stats = stats_of(r.model.runner->describe(TN_DESC_STATS_JSON));
  return {{"model", std::filesystem::path(path).stem().string()},
          {"backend", r.backend},
          {"cold_compile_ms", r.starts.cold.compile_ms},
          {"warm_compile_ms", r.starts.warm.compile_ms},
          {"overhead_us", r.overhead_us < 0 ? Json() : Json(r.overhead_us)},
          {"latency_us",
           {{"median", median},
            {"p25", quantile(r.us, 0.25)},
            {"p75", quantile(r.us, 0.75)},
            {"p99", quantile(r.us, 0.99)},
            {"n", r.us.size()}}},
          {"kernels", stats["kernels"].integer()},
          {"extern_calls", stats["extern_calls"].integer()},
          {"peak_bytes", r.starts.cold.peak_bytes},
          {"fallback_ops", stats["extern_ops"]},
          {"speedup_vs_eager", median > 0 ? eager_us / median : 0},
          {"noisy", is_noisy(r)}};
}

std::vector<Json> bench_model(const std::string& path, const std::vector<std::string>& backends,
                              const BenchOptions& options, const Globals& globals) {
  std::vector<Runner> runners;
  // eager is measured in any case, since the others are compared with it; a mode is theirs.
  if (std::find(backends.begin(), backends.end(), "eager") == backends.end()) {
    BenchOptions plain = options;
    plain.options.mode.clear();
    runners.push_back(make_runner(path, "eager", plain, globals));
  }
  bool eager_is_extra = !runners.empty();
  for (const std::string& backend : backends)
    runners.push_back(make_runner(path, backend, options, globals));
  double turn = parse_seconds(options.time) / options.rounds;
  for (int round = 0; round < options.rounds; ++round)
    for (Runner& r : runners) run_round(r, turn);
  double eager_us = 0;
  for (Runner& r : runners) {
    std::vector<double> sorted = r.us;
    std::sort(sorted.begin(), sorted.end());
    if (r.backend == "eager") eager_us = quantile(sorted, 0.5);
  }
  std::vector<Json> results;
  for (size_t i = eager_is_extra ? 1 : 0; i < runners.size(); ++i)
    results.push_back(to_json(runners[i], path, eager_us));
  return results;
}

void print_table(const Json& results) {
  Table table({"MODEL", "BACKEND", "COLD ms", "WARM ms", "MEDIAN us", "P25", "P75", "P99",
               "OVERHEAD us", "KERNELS", "EXTERN", "PEAK MiB", "VS EAGER"});
  for (const Json& r : results) {
    const Json& us = r["latency_us"];
    auto number = [](const Json& value) { return rounded(value.number()); };
    table.add({r["model"].text(), r["backend"].text(), number(r["cold_compile_ms"]),
               number(r["warm_compile_ms"]), number(us["median"]), number(us["p25"]),
               number(us["p75"]), number(us["p99"]),
               r["overhead_us"].is_null() ? "-" : number(r["overhead_us"]), r["kernels"].dump(),
               r["extern_calls"].dump(), rounded(r["peak_bytes"].number() / (1 << 20)),
               number(r["speedup_vs_eager"]) + "x"});
  }
  print(table.text());
}

int bench(const BenchOptions& options, const Globals& globals) {
  if (globals.json) leave_stdout_to_json();
  std::vector<std::string> backends = backend_names(options.backends);
  parse_seconds(options.time);
  Json document{{"schema", 1},
                {"threads", num_threads()},
                {"cpu", proc_value("/proc/cpuinfo", "model name")},
                {"results", Json::Array{}}};
  for (const std::string& path : options.models)
    for (Json& result : bench_model(path, backends, options, globals)) {
      if (result["noisy"].boolean())
        print_message(
            message("{} with {}: the rounds differ by more than a tenth; the machine is "
                    "too busy for this figure",
                    result["model"].text(), result["backend"].text()));
      document["results"].items().push_back(std::move(result));
    }
  if (globals.json)
    print_json(document);
  else
    print_table(document["results"]);
  return 0;
}

Action build_bench(Options& app) {
  auto options = std::make_shared<BenchOptions>();
  app.add_option("MODEL", options->models, ".pt2 archives").required();
  app.add_option("--backend", options->backends, "backends, separated by commas").one_at_a_time();
  app.add_option("--rounds", options->rounds, "turns of each backend").within(1, 1000);
  app.add_option("--time", options->time, "for each backend on each model, such as 3s or 500ms");
  add_input_options(app, options->inputs);
  add_model_options(app, options->options);
  return [options](const Globals& globals) { return bench(*options, globals); };
}

}  // namespace

extern constinit const Verb verb_bench{
    .name = "bench",
    .summary = "measures compile times and latencies",
    .example = "tenon bench resnet18.pt2 --backend eager,inductor --time 3s",
    .build = build_bench};

}  // namespace tenon::cli
