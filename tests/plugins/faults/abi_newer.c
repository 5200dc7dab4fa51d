/* Built with a header of a later minor version: its tables are longer, with fields that this host
 * does not know, and it asks before it uses what this host lacks. It must work. */
#include "fault.h"

TN_MANIFEST(FAULT_PLUGIN("fault_abi_newer", "1.1", "abi_min = '1.0'\n")
                FAULT_BACKEND("fault_abi_newer"));

typedef struct newer_host {
  tn_host now;
  tn_status* (*later)(void);
} newer_host;
typedef struct newer_backend {
  tn_backend now;
  tn_status* (*later)(void* self);
  uint64_t more[4];
} newer_backend;
typedef struct newer_plugin {
  tn_plugin now;
  const void* const* later;
  uint32_t n_later, _r2;
} newer_plugin;

static tn_status* later(void* self) {
  (void)self;
  return host->status_new(TN_INTERNAL, "called", 6);
}

static tn_status* compile(void* self, const tn_compile_request* request, tn_artifact** out) {
  const newer_host* newer = (const newer_host*)host;
  uint32_t reaches = (uint32_t)(offsetof(newer_host, later) + sizeof newer->later);
  if (host->struct_size >= reaches && newer->later) return newer->later();
  return fault_interpret(self, request, out);
}

static const newer_backend backend = {.now = {.struct_size = sizeof(newer_backend),
                                              .name = TN_STR("fault_abi_newer"),
                                              .compile = compile},
                                      .later = later,
                                      .more = {~0ull, ~0ull, ~0ull, ~0ull}};
static const tn_backend* const backends[] = {&backend.now};
static const newer_plugin plugin = {.now = {.struct_size = sizeof(newer_plugin),
                                            .abi_major = 1,
                                            .abi_minor = 1,
                                            .backends = backends,
                                            .n_backends = 1},
                                    .later = (const void* const*)backends,
                                    .n_later = 1};
FAULT_ENTRY(&plugin.now)
