/* Needs functions of a host that is newer than this one. */
#include "fault.h"

TN_MANIFEST(FAULT_PLUGIN("fault_abi_min", "1.99", "abi_min = '1.99'\n")
                FAULT_BACKEND("fault_abi_min"));
FAULT_TABLES("fault_abi_min", fault_interpret);
FAULT_ENTRY(&fault_plugin)
