/* Its manifest names a stage that does not exist. */
#include "fault.h"

TN_MANIFEST(FAULT_PLUGIN("fault_bad_manifest", "1.0", "")
                FAULT_BACKEND("fault_bad_manifest") "stage = 'later'\n");
FAULT_TABLES("fault_bad_manifest", fault_interpret);
FAULT_ENTRY(&fault_plugin)
