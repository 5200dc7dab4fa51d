// When to verify, and what to compare.
#include "runtime/verify.h"

#include "config/flags.h"
#include "core/error.h"
#include "graph/hash.h"
#include "report/log.h"
#include "runtime/limits.h"

#include <algorithm>
#include <bit>

namespace tenon {

using detail::Leaves;
using detail::Site;

namespace {

bool is_power_of_four(uint64_t n) { return std::has_single_bit(n) && std::countr_zero(n) % 2 == 0; }

// The next hit that may be due; flags are asked again after a thousand hits at the latest.
uint64_t next_check_after(uint64_t hit, uint64_t every) {
  uint64_t power = std::bit_ceil(hit + 1);
  if (!is_power_of_four(power)) power *= 2;
  uint64_t next = std::min(power, hit + 1000);
  return every ? std::min(next, (hit / every + 1) * every) : next;
}

// Different symbols of the entry have one value here, so that a new recording shares a symbol
// between them: its graph says nothing about the entry's.
bool symbols_coincide(const Entry& entry, const Leaves& leaves) {
  const GuardSet& guards = entry.recorded.guards;
  std::vector<int64_t> words(guards.loads.size());
  guards.load(leaves, words.data());
  std::ranges::sort(words);
  return std::ranges::adjacent_find(words) != words.end();
}

}  // namespace

bool is_due_at(const Site& site, Entry& entry, uint64_t hit, const Leaves& leaves) {
  config::OptionScope options(site.flags);
  const config::CaptureFlags& flags = config::flags().capture;
  auto every = static_cast<uint64_t>(flags.retrace_check);
  entry.next_check.store(next_check_after(hit, every), std::memory_order_relaxed);
  bool due = is_power_of_four(hit) || (every && hit % every == 0);
  return due && flags.mode != "hit" && !symbols_coincide(entry, leaves);
}

bool is_same(const Recording& found, const Recording& recorded) {
  if (found.has_graph_breaks() || found.plain_results != recorded.plain_results) return false;
  if (!found.graph || !recorded.graph) return !found.graph && !recorded.graph;
  return structurally_equal(*recorded.graph, *found.graph);
}

void report_stale(Site& site) {
  if (site.replay_for_good.exchange(true)) return;
  std::string text = message(
      "callable {} did something else than when it was recorded, with equal arguments: it reads a "
      "value that is not an argument; pass it as one. From now on the body runs on every call",
      display_name(site));
  require(config::flags().capture.on_stale != "error", ErrorCode::capture_divergence, "{}", text);
  report::log_line(report::LogLevel::warning, "capture", text);
}

}  // namespace tenon
