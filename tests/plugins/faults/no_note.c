/* Has an entry and no manifest. */
#include "fault.h"

FAULT_TABLES("fault_no_note", fault_interpret);
FAULT_ENTRY(&fault_plugin)
