// Uses a function that nothing defines; linked without -z defs and to be bound lazily.
#include "fault.h"

namespace faults {
int not_there(const char* name, int n);
}

FAULT_MANIFEST("fault_undefined_symbol");

static tn_status* compile(void* self, const tn_compile_request* request, tn_artifact** out) {
  return faults::not_there("x", 1) ? fault_interpret(self, request, out) : nullptr;
}
FAULT_TABLES("fault_undefined_symbol", compile);
FAULT_ENTRY(&fault_plugin)
