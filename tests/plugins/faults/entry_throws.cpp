// Its entry throws: an exception of the library, a number, or a type of its own.
#include "fault.h"

#include <stdexcept>

namespace faults {
struct Own {
  int number;
};
}  // namespace faults

TN_MANIFEST(FAULT_PLUGIN("fault_" FAULT_NAME, "1.0", "") FAULT_BACKEND("fault_" FAULT_NAME));

tn_status* tenon_plugin_entry_v1(const tn_host* given, const tn_plugin**) {
  host = given;
  (void)fault_interpret;
  throw FAULT_THROWN;
}
