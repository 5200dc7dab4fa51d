/* Its entry succeeds and gives a table that cannot be right. FAULT says in which way. */
#include "fault.h"

enum {
  no_table = 1,
  short_table,
  no_list,
  absurd_count,
  null_entry,
  short_entry,
  no_name,
  long_name,
  no_compile,
  other_major
};

TN_MANIFEST(FAULT_PLUGIN("fault_" FAULT_NAME, "1.0", "") FAULT_BACKEND("fault_" FAULT_NAME));

static const tn_backend backend = {
    .struct_size = FAULT == short_entry ? 8 : sizeof(tn_backend),
    .name = {FAULT == no_name ? 0 : "fault_" FAULT_NAME,
             FAULT == long_name ? (size_t)-1 : sizeof("fault_" FAULT_NAME) - 1},
    .compile = FAULT == no_compile ? 0 : fault_interpret};
static const tn_backend* const backends[] = {FAULT == null_entry ? 0 : &backend};
static const tn_plugin plugin = {.struct_size = FAULT == short_table ? 16 : sizeof(tn_plugin),
                                 .abi_major = FAULT == other_major ? 2 : TN_ABI_MAJOR,
                                 .abi_minor = TN_ABI_MINOR,
                                 .backends = FAULT == no_list ? 0 : backends,
                                 .n_backends = FAULT == absurd_count ? 0xFFFFFFFFu : 1};
FAULT_ENTRY(FAULT == no_table ? 0 : &plugin)
