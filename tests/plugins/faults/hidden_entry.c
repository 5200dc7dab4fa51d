/* Its version script hides all symbols, the entry too. */
#include "fault.h"

FAULT_MANIFEST("fault_hidden_entry");
FAULT_TABLES("fault_hidden_entry", fault_interpret);
FAULT_ENTRY(&fault_plugin)
