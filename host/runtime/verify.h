// Verification: what code takes for granted beyond its guards is looked at again now and then.
//
// Guards do not see a value that the body reads and that is not an argument. So the body is recorded
// anew at hits 1, 4, 16, 64 ... and at every `capture.retrace_check`th one, under the flags of the
// entry, and must give its graph and its plain results; else the entry is stale. Between these hits
// the cost is one comparison.
#pragma once

#include "runtime/call.h"

namespace tenon {

/// The slow half of is_due(): asks the flags, and sets when to ask again.
bool is_due_at(const detail::Site& site, Entry& entry, uint64_t hit, const detail::Leaves& leaves);

/// Counts a hit; whether the body is recorded anew for it.
inline bool is_due(const detail::Site& site, Entry& entry, const detail::Leaves& leaves) {
  uint64_t hit = entry.hits.load(std::memory_order_relaxed) + 1;
  entry.hits.store(hit, std::memory_order_relaxed);
  return hit >= entry.next_check.load(std::memory_order_relaxed) &&
         is_due_at(site, entry, hit, leaves);
}

/// Whether a new recording does what the entry's does, with the tensors that its code would get.
bool is_same(const Recording& found, const Recording& recorded);

/// The body has done something else with equal arguments, `found` instead of `recorded`: from now on
/// it runs on every call. Warns or throws, as capture.on_stale says.
void report_stale(detail::Site& site, const Recording& found, const Recording& recorded);

}  // namespace tenon
