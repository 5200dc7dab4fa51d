/* Built for a major version of the ABI that this host does not have. */
#include "fault.h"

TN_MANIFEST(FAULT_PLUGIN("fault_abi_2", "2.0", "") FAULT_BACKEND("fault_abi_2"));
FAULT_TABLES("fault_abi_2", fault_interpret);
FAULT_ENTRY(&fault_plugin)
