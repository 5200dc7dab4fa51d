// What happens on every call of a compiled callable.
#include "runtime/call.h"

#include "capture/trace.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "runtime/limits.h"
#include "runtime/verify.h"

#include <set>

namespace tenon {

void (*miss_slot)(detail::Site&, const detail::Leaves&, const detail::Body&,
                  detail::CallResult&) = nullptr;
void (*follow_entry_slot)(detail::Site&, Entry&, const detail::Leaves&, const detail::Body&,
                          detail::CallResult&) = nullptr;
void (*replay_slot)(detail::Site&, const detail::Leaves&, const detail::Body&,
                    detail::CallResult&) = nullptr;
bool (*verify_slot)(detail::Site&, Entry&, const detail::Leaves&, const detail::Body&,
                    detail::CallResult&) = nullptr;

OptionTexts option_texts(const std::map<std::string, std::string>& options) {
  OptionTexts texts;
  for (const auto& [key, value] : options) {
    bool is_flag = key.find('.') != std::string::npos;
    (is_flag ? texts.flags : texts.backend) += key + " = " + value + "\n";
  }
  return texts;
}

namespace detail {

namespace {

std::atomic<uint32_t> next_site{0};
std::mutex all_sites_lock;
std::set<Site*>& all_sites() {
  static auto* sites = new std::set<Site*>;
  return *sites;
}

}  // namespace

Site::Site(Options o) : options(std::move(o)), number(next_site.fetch_add(1)) {
  std::string own_flags = option_texts(options.options).flags;
  if (!own_flags.empty()) flags = config::check_options(own_flags);
}

Site::Counters& Site::my_counters() {
  static std::atomic<uint32_t> next_thread{0};
  thread_local uint32_t mine = next_thread.fetch_add(1, std::memory_order_relaxed);
  return counters[mine % counters.size()];
}

bool Site::skips_bodies() const {
  const Choice& mode = config::flags().capture.mode;
  return mode == "hit" || (options.pure && mode != "replay");
}

Entry& Site::add(std::unique_ptr<Entry> entry) {
  uint32_t n = n_entries.load(std::memory_order_relaxed);
  if (n == max_entries) --n;  // the one hit longest ago goes
  for (uint32_t i = n; i > 0; --i)
    order[i].store(order[i - 1].load(std::memory_order_relaxed), std::memory_order_release);
  order[0].store(entry.get(), std::memory_order_release);
  n_entries.store(n + 1, std::memory_order_release);
  return *entries.emplace_back(std::move(entry));
}

void Site::move_to_front(size_t from) {
  std::unique_lock lock(changing, std::try_to_lock);
  if (!lock || from >= n_entries.load(std::memory_order_relaxed)) return;
  Entry* hit = order[from].load(std::memory_order_relaxed);
  for (size_t i = from; i > 0; --i)
    order[i].store(order[i - 1].load(std::memory_order_relaxed), std::memory_order_release);
  order[0].store(hit, std::memory_order_release);
}

void Site::evict_last() {
  uint32_t n = n_entries.load(std::memory_order_relaxed);
  if (n > 0) n_entries.store(n - 1, std::memory_order_release);
}

void Site::reset() {
  std::lock_guard lock(changing);
  n_entries.store(0, std::memory_order_release);
  segments.clear();
  memory = {};
  attempts = 0;
  limit_reported = run_only = skipped = false;
  recompile_reasons.clear();
  replay_for_good = false;
}

std::shared_ptr<Site> make_site(const Options& options) {
  std::shared_ptr<Site> site(new Site(options), [](Site* s) {
    {
      std::lock_guard lock(all_sites_lock);
      all_sites().erase(s);
    }
    delete s;
  });
  std::lock_guard lock(all_sites_lock);
  all_sites().insert(site.get());
  return site;
}

// Flag dynamo.error_on_nested_fx_trace. A capture takes inner callables in; other tracers do not.
static void require_nesting_allowed(const Site& site) {
  bool plain_tracer = thread_modes.tracer && !thread_modes.follower && !Trace::current();
  require(!plain_tracer || !config::flags().dynamo.error_on_nested_fx_trace,
          "callable {} is compiled and was called while a graph tracer records; call the plain "
          "function, or set dynamo.error_on_nested_fx_trace = false to trace through it",
          display_name(site));
}

void call_site(Site& site, const Leaves& leaves, const Body& body, CallResult& result) {
  // Inside another recording the body is part of the outer graph.
  if (thread_modes.tracer || config::flags().dynamo.disable) {
    require_nesting_allowed(site);
    return body.run_eager(body.context);
  }
  Site::Counters& counters = site.my_counters();
  counters.calls.store(counters.calls.load(std::memory_order_relaxed) + 1,
                       std::memory_order_relaxed);
  uint32_t n = site.n_entries.load(std::memory_order_acquire);
  bool skips_bodies = site.skips_bodies();
  for (uint32_t i = 0; i < n; ++i) {
    Entry* entry = site.order[i].load(std::memory_order_acquire);
    bool follows = entry->replays() || (!skips_bodies && !entry->recorded.has_backward);
    if (follows ? !entry->accepts(leaves) : !entry->serves(leaves)) continue;
    if (i > 0) site.move_to_front(i);
    if (follows) return follow_entry_slot(site, *entry, leaves, body, result);
    if (is_due(site, *entry, leaves) && verify_slot(site, *entry, leaves, body, result)) return;
    counters.hits.store(counters.hits.load(std::memory_order_relaxed) + 1,
                        std::memory_order_relaxed);
    result.prototype = entry->recorded.prototype.get();
    return entry->run({leaves}, result);
  }
  miss_slot(site, leaves, body, result);
}

CallStats site_stats(const Site& site) {
  CallStats out;
  for (const Site::Counters& c : site.counters) {
    out.calls += c.calls.load(std::memory_order_relaxed);
    out.hits += c.hits.load(std::memory_order_relaxed);
  }
  out.compiles = site.compiles;
  out.replays = site.replays;
  out.eager_calls = site.eager_calls;
  out.graph_breaks = site.graph_breaks;
  return out;
}

void reset_site(Site& site) { site.reset(); }

}  // namespace detail

void reset() {
  std::lock_guard lock(detail::all_sites_lock);
  for (detail::Site* site : detail::all_sites()) site->reset();
}

}  // namespace tenon
