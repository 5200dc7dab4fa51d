/* Its table has other backends than its manifest. */
#include "fault.h"

TN_MANIFEST(FAULT_PLUGIN("fault_other_backends", "1.0", "") FAULT_BACKEND("fault_other_backends")
                FAULT_BACKEND("fault_second"));

static const tn_backend first = {
    .struct_size = sizeof first, .name = TN_STR("fault_secnd"), .compile = fault_interpret};
static const tn_backend second = {.struct_size = sizeof second,
                                  .name = TN_STR("fault_other_backends"),
                                  .compile = fault_interpret};
static const tn_backend* const backends[] = {&first, &second};
static const tn_plugin plugin = {.struct_size = sizeof plugin,
                                 .abi_major = TN_ABI_MAJOR,
                                 .abi_minor = TN_ABI_MINOR,
                                 .backends = backends,
                                 .n_backends = 2};
FAULT_ENTRY(&plugin)
