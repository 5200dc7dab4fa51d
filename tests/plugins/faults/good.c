/* Nothing is wrong with it: what the patched and mutated files are made of. */
#include "fault.h"

FAULT_MANIFEST("fault_good");
FAULT_TABLES("fault_good", fault_interpret);
FAULT_ENTRY(&fault_plugin)
