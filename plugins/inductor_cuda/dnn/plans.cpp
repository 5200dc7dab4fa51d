// Making plans, here or on threads of their own.
#include "plans.h"

#include "../disk_cache.h"

#include <future>
#include <map>
#include <mutex>
#include <tuple>

namespace inductor_cuda {

using tenon::plugin::text;

namespace {

constexpr size_t most_plans = 512;  // of a process

/// Where descriptions of plans lie in the host's cache. Trials keep their choice elsewhere.
std::string name_on_disk(const DnnLibrary& library, const DnnGraph& graph,
                         const DnnOptions& options) {
  return "cudnn-" +
         loopir::digest(text("{}\n{} {}{}{}", library.identity(), graph.key(), options.allows_tf32,
                             options.deterministic, options.may_round_bias));
}

}  // namespace

struct DnnPlans::Key : std::tuple<const DnnLibrary*, DnnOptions, bool, std::string> {
  using tuple::tuple;
};

struct DnnPlans::Outcome {
  std::shared_ptr<const DnnPlan> plan;
  std::string why_not;
  std::string said;  // the library's description of a plan that is not on disk
};

struct DnnPlans::Entry {
  std::shared_future<Outcome> outcome;
};

struct DnnPlans::All {
  std::mutex finding;  // guards what follows
  std::map<Key, Entry> entries;
  std::mutex planning;  // by the library's own handle
};

// Leaked: plans under way may outlive everything else.
DnnPlans::All& DnnPlans::all() {
  static auto* const one = new All;
  return *one;
}

DnnPlans::Outcome DnnPlans::made(const DnnLibrary& library, const DnnGraph& graph,
                                 const DnnOptions& options, const Tuning* tuning,
                                 const std::optional<std::string>& kept, dnn::Handle handle) {
  Outcome out;
  std::shared_ptr<DnnPlan> plan(new DnnPlan(library, handle, graph));
  const bool is_restored = kept && plan->restore(*kept);
  if (!is_restored && !plan->make(graph, options, tuning, out.why_not)) return out;
  if (!is_restored && !tuning) out.said = plan->description();
  out.plan = std::move(plan);
  return out;
}

DnnPlans::Outcome DnnPlans::made_elsewhere(const DnnLibrary& library, const DnnGraph& graph,
                                           const DnnOptions& options,
                                           const std::optional<std::string>& kept) {
  struct Lent {
    const DnnLibrary& library;
    dnn::Handle handle;
    ~Lent() { library.give_back(handle); }
  } lent{library, library.lend_handle()};
  return made(library, graph, options, nullptr, kept, lent.handle);
}

// The host's cache is asked on the thread of the compile.
DnnPlans::Entry DnnPlans::begun(const DnnLibrary& library, const DnnGraph& graph,
                                const DnnRequest& request, const Tuning* tuning) {
  tn_ctx* cache = tuning ? nullptr : request.cache;
  std::optional<std::string> kept;
  if (cache) kept = from_disk(cache, name_on_disk(library, graph, request.options));
  const DnnOptions options = request.options;
  if (graph.is_attention() && !tuning)
    return {std::async(std::launch::async, [&library, graph, options, kept] {
              return made_elsewhere(library, graph, options, kept);
            }).share()};
  std::promise<Outcome> here;
  std::lock_guard lock(all().planning);
  here.set_value(made(library, graph, options, tuning, kept, library.handle()));
  return {here.get_future().share()};
}

DnnPlans::Entry DnnPlans::entry(const Key& key, const DnnLibrary& library, const DnnGraph& graph,
                                const DnnRequest& request, const Tuning* tuning) {
  All& a = all();
  std::lock_guard lock(a.finding);
  if (auto at = a.entries.find(key); at != a.entries.end()) return at->second;
  if (a.entries.size() >= most_plans) a.entries.clear();
  return a.entries[key] = begun(library, graph, request, tuning);
}

std::shared_ptr<const DnnPlan> DnnPlans::find(const DnnLibrary& library, const DnnGraph& graph,
                                              const DnnRequest& request, std::string& why_not,
                                              const Tuning* tuning) {
  Key key{&library, request.options, tuning != nullptr, graph.key()};
  std::shared_future<Outcome> outcome = entry(key, library, graph, request, tuning).outcome;
  Outcome known;
  try {
    known = outcome.get();
  } catch (...) {  // the next one tries again
    std::lock_guard lock(all().finding);
    all().entries.erase(key);
    throw;
  }
  why_not = known.why_not;
  if (known.said.empty() || !request.cache || tuning) return known.plan;
  std::string name = name_on_disk(library, graph, request.options);
  to_disk(request.cache, name, known.said);
  std::promise<Outcome> kept;
  known.said.clear();
  kept.set_value(known);
  std::lock_guard lock(all().finding);
  all().entries[key] = {kept.get_future().share()};
  return known.plan;
}

bool DnnPlans::may_find(const DnnLibrary& library, const DnnGraph& graph,
                        const DnnRequest& request) {
  Key key{&library, request.options, false, graph.key()};
  Entry at = entry(key, library, graph, request, nullptr);
  if (at.outcome.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return true;
  std::string why;
  return find(library, graph, request, why) != nullptr;
}

void DnnPlans::wait() {
  std::vector<Entry> open;
  {
    std::lock_guard lock(all().finding);
    for (auto& [key, at] : all().entries) open.push_back(at);
  }
  for (const Entry& at : open) at.outcome.wait();
}

}  // namespace inductor_cuda
