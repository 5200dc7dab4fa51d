/* Its backend table ends behind compile, as one of a header would that had no more yet. What
 * follows in memory must not be read. It must work. */
#include "fault.h"

FAULT_MANIFEST("fault_abi_shorter");

static const struct {
  tn_backend table;
} backend = {{.struct_size = offsetof(tn_backend, supports),
              .name = TN_STR("fault_abi_shorter"),
              .compile = fault_interpret,
              .supports = (tn_status * (*)(void*, const tn_compile_request*, uint8_t*))8,
              .reset = (tn_status * (*)(void*))8}};
static const tn_backend* const backends[] = {&backend.table};
static const tn_plugin plugin = {.struct_size = offsetof(tn_plugin, shutdown),
                                 .abi_major = TN_ABI_MAJOR,
                                 .abi_minor = TN_ABI_MINOR,
                                 .backends = backends,
                                 .n_backends = 1,
                                 .shutdown = (tn_status * (*)(void))8};
FAULT_ENTRY(&plugin)
