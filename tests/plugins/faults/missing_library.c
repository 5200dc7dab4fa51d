/* Links two libraries that cannot be found when it is loaded. */
#include "fault.h"

int tenon_test_gone(void);

TN_MANIFEST(FAULT_PLUGIN("fault_missing_library", "1.0",
                         "needs_library = ['libtenon_test_gone.so.3']\n")
                FAULT_BACKEND("fault_missing_library"));

static tn_status* compile(void* self, const tn_compile_request* request, tn_artifact** out) {
  return tenon_test_gone() ? fault_interpret(self, request, out) : 0;
}
FAULT_TABLES("fault_missing_library", compile);
FAULT_ENTRY(&fault_plugin)
