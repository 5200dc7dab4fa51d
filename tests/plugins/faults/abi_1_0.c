/* Compiled against the frozen header of ABI 1.0. It must work for ever. */
#include "fault.h"

#if TN_ABI_MAJOR != 1 || TN_ABI_MINOR != 0
#error "this fixture is compiled with tests/plugins/abi_1_0/plugin.h"
#endif

FAULT_MANIFEST("fault_abi_1_0");
FAULT_TABLES("fault_abi_1_0", fault_interpret);
FAULT_ENTRY(&fault_plugin)
