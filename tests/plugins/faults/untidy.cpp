// Exports more than its entry, shares a unique symbol, and is linked for an executable stack.
#include "fault.h"

namespace faults {
struct Counter {
  static inline int total = 0;
};
int add(int n) { return Counter::total += n; }
int a_function_whose_name_is_longer_than_a_line_of_a_warning_holds(int a, int b) { return a - b; }
}  // namespace faults

FAULT_MANIFEST("fault_untidy");

static tn_status* compile(void* self, const tn_compile_request* request, tn_artifact** out) {
  return faults::add(1) ? fault_interpret(self, request, out) : nullptr;
}
FAULT_TABLES("fault_untidy", compile);
FAULT_ENTRY(&fault_plugin)
