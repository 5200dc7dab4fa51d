// `tenon bench`: compile times and latencies of models, backends taking turns.
#include "cli/bench_timing.h"

#include "backend/backend.h"
#include "core/error.h"
#include "core/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>

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
  double cold_ms = 0, warm_ms = 0;
  uint64_t peak_bytes = 0;
  std::vector<double> us, medians;  ///< of all calls; of each round
};

// A line "Name:   value" of a file in /proc; "" where there is none.
std::string proc_value(const char* file, std::string_view name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    size_t at = line.find_first_not_of(" \t:", name.size());
    return at == std::string::npos ? "" : line.substr(at);
  }
  return "";
}

void reset_peak_memory() { std::ofstream("/proc/self/clear_refs") << "5"; }
uint64_t peak_memory() {
  return std::strtoull(proc_value("/proc/self/status", "VmHWM").c_str(), nullptr, 10) * 1024;
}

Runner make_runner(const std::string& path, const std::string& backend,
                   const BenchOptions& options) {
  Runner r;
  r.backend = backend;
  r.model = load_model(path, options.options, backend);
  r.leaves = make_leaves(r.model, or_recorded(options.inputs, path));
  reset_peak_memory();
  r.model.runner->compile(r.leaves);
  r.cold_ms = r.model.runner->compile_ms();
  // The same again finds what the first one left on disk.
  LoadedModel again = load_model(path, options.options, backend);
  again.runner->compile(r.leaves);
  r.warm_ms = again.runner->compile_ms();
  r.model.runner->run(r.leaves);
  r.peak_bytes = peak_memory();
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
          {"cold_compile_ms", r.cold_ms},
          {"warm_compile_ms", r.warm_ms},
          {"latency_us",
           {{"median", median},
            {"p25", quantile(r.us, 0.25)},
            {"p75", quantile(r.us, 0.75)},
            {"p99", quantile(r.us, 0.99)},
            {"n", r.us.size()}}},
          {"kernels", stats.value("kernels", 0)},
          {"extern_calls", stats.value("extern_calls", 0)},
          {"peak_bytes", r.peak_bytes},
          {"fallback_ops", stats.value("extern_ops", Json::array())},
          {"speedup_vs_eager", median > 0 ? eager_us / median : 0},
          {"noisy", is_noisy(r)}};
}

std::vector<Json> bench_model(const std::string& path, const std::vector<std::string>& backends,
                              const BenchOptions& options) {
  std::vector<Runner> runners;
  // eager is measured in any case, since the others are compared with it.
  if (std::find(backends.begin(), backends.end(), "eager") == backends.end())
    runners.push_back(make_runner(path, "eager", options));
  bool eager_is_extra = !runners.empty();
  for (const std::string& backend : backends)
    runners.push_back(make_runner(path, backend, options));
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

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 100 ? "%.2f" : "%.0f", value);
  return text;
}

void print_table(const Json& results) {
  Table table({"MODEL", "BACKEND", "COLD ms", "WARM ms", "MEDIAN us", "P25", "P75", "P99",
               "KERNELS", "EXTERN", "PEAK MiB", "VS EAGER"});
  for (const Json& r : results) {
    const Json& us = r["latency_us"];
    table.add({r["model"], r["backend"], rounded(r["cold_compile_ms"]),
               rounded(r["warm_compile_ms"]), rounded(us["median"]), rounded(us["p25"]),
               rounded(us["p75"]), rounded(us["p99"]), r["kernels"].dump(),
               r["extern_calls"].dump(), rounded(r["peak_bytes"].get<double>() / (1 << 20)),
               rounded(r["speedup_vs_eager"]) + "x"});
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
                {"results", Json::array()}};
  for (const std::string& path : options.models)
    for (Json& result : bench_model(path, backends, options)) {
      if (result["noisy"])
        print_message(
            message("{} with {}: the rounds differ by more than a tenth; the machine is "
                    "too busy for this figure",
                    result["model"].get<std::string>(), result["backend"].get<std::string>()));
      document["results"].push_back(std::move(result));
    }
  if (globals.json)
    print_json(document);
  else
    print_table(document["results"]);
  return 0;
}

Action build(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  app.add_option("MODEL", options->models, ".pt2 archives")->required();
  add_repeated(app, "--backend", options->backends, "backends, separated by commas");
  app.add_option("--rounds", options->rounds, "turns of each backend")->check(CLI::Range(1, 1000));
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
    .build = build};

}  // namespace tenon::cli
