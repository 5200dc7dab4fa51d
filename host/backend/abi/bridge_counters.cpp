// The extension "tenon.counters": plugins count beside the host.
#include "backend/abi/extensions.h"
#include "backend/abi/status.h"
#include "report/events.h"

#include <tenon/counters.h>

namespace tenon {

namespace {

void count(tn_str family, tn_str which) {
  tn_status* failed = guarded([&] {
    if (which.size)
      report::count_in(view_of(family), view_of(which));
    else
      report::counter(view_of(family)).add();
  });
  if (failed) free_status(failed);
}

const tn_counters_api counters_api = {
    .struct_size = sizeof(tn_counters_api), ._r0 = 0, .count = count};

const struct OfferCounters {
  OfferCounters() { add_extension(TN_COUNTERS_ID, TN_COUNTERS_VERSION, &counters_api); }
} offer_counters;

}  // namespace

}  // namespace tenon
