// Compiling, calling and asking the backend.
#include "cli/bench/measured.h"

#include "cli/bench/bench_timing.h"
#include "config/config.h"
#include "debug/graph_runner.h"

#include <tenon/config.h>
#include <tenon/plugin.h>

#include <algorithm>
#include <numeric>

namespace tenon::cli {

namespace {

/// Turns the backend's option on while it lives, if there is one.
class ProfileScope {
 public:
  explicit ProfileScope(const std::string& backend) : key_(backend + ".profile") {
    config::declare_all_options();
    std::vector<config::FlagInfo> flags = config::list();
    is_there_ = std::any_of(flags.begin(), flags.end(),
                            [&](const config::FlagInfo& f) { return f.key == key_; });
    if (is_there_) config::set(key_, true);
  }
  ~ProfileScope() {
    if (is_there_) config::unset(key_);
  }
  ProfileScope(const ProfileScope&) = delete;

 private:
  std::string key_;
  bool is_there_ = false;
};

template <class Describe>
void take_texts(const Describe& describe, MeasuredModel& out) {
  out.stats = stats_of(describe(TN_DESC_STATS_JSON));
  out.loops_before = describe(TN_DESC_IR);
  out.loops = describe(TN_DESC_GRAPH);
  out.fusion = describe(TN_DESC_SOURCE);
  out.memory = describe(TN_DESC_MEMORY_PLAN);
}

// All time spent in items so far, in µs; negative where the backend does not tell.
double time_in_items(const Json& stats) {
  double sum = 0;
  bool has_times = false;
  for (const Json& item : stats["items"]) {
    has_times |= item["us"].is_number();
    if (!item["prepacked"].boolean()) sum += item["us"].number() * item["calls"].number();
  }
  return has_times ? sum : -1;
}

// Calls that are timed, after one that packs weights and makes memory. Means, since those of items
// are means.
template <class Describe>
void call(const std::function<void()>& once, const Describe& describe, double seconds,
          MeasuredModel& out) {
  once();
  double before = time_in_items(stats_of(describe(TN_DESC_STATS_JSON)));
  std::vector<double> us = time_calls(once, seconds), sorted = us;
  std::sort(sorted.begin(), sorted.end());
  out.median_us = quantile(sorted, 0.5);
  double in_items = time_in_items(stats_of(describe(TN_DESC_STATS_JSON))) - before;
  double n_calls = static_cast<double>(us.size() + 1);  // with the one that is not counted
  double mean = std::accumulate(us.begin(), us.end(), 0.0) / static_cast<double>(us.size());
  if (before >= 0) out.overhead_us = std::max(0.0, mean - in_items / n_calls);
}

}  // namespace

MeasuredModel measure_model(const std::string& path, const ModelOptions& options,
                            const InputOptions& inputs, const std::string& backend,
                            double seconds) {
  ProfileScope profile(backend);
  // Code that was kept has no texts of how it came about.
  auto no_cache = config::patch({{"functorch.enable_autograd_cache", false}});
  MeasuredModel out;
  if (graph_file_kind(path) == GraphFileKind::archive) {
    LoadedModel model = load_model(path, options, backend);
    std::vector<Tensor> leaves = make_leaves(model, or_recorded(inputs, path));
    model.runner->compile(leaves);
    out.compile_ms = model.runner->compile_ms();
    auto describe = [&](int32_t what) { return model.runner->describe(what); };
    if (seconds > 0) call([&] { model.runner->run(leaves); }, describe, seconds, out);
    take_texts(describe, out);
  } else {
    GraphRunner runner(load_graph(path, options), {backend, options.mode, "", false});
    std::vector<Tensor> given = runner.random_inputs();
    fill_inputs(given, inputs, [&](const std::string& name) { return runner.find(name); });
    runner.compile();
    out.compile_ms = runner.compile_ms();
    auto describe = [&](int32_t what) { return runner.describe(what); };
    if (seconds > 0) call([&] { runner.run(given); }, describe, seconds, out);
    take_texts(describe, out);
  }
  return out;
}

}  // namespace tenon::cli
