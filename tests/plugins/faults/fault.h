/* What the fixtures share: a manifest, a backend that lets the host run the graph, and its tables.
 * Each fixture is wrong in one way only. */
#ifndef TENON_TESTS_FAULT_H
#define TENON_TESTS_FAULT_H
#include <tenon/plugin.h>

/* `more` are further lines of [plugin]. */
#define FAULT_PLUGIN(name, abi, more) \
  "manifest = 1\n[plugin]\nname = '" name "'\nversion = '0.1.0'\nabi = '" abi "'\n" more
#define FAULT_BACKEND(name) \
  "[[backend]]\nname = '" name "'\ndevices = ['*']\ndynamic_shapes = true\n"
#define FAULT_MANIFEST(name) TN_MANIFEST(FAULT_PLUGIN(name, "1.0", "") FAULT_BACKEND(name))

static const tn_host* host;

static inline tn_status* fault_interpret(void* self, const tn_compile_request* request,
                                         tn_artifact** out) {
  (void)self;
  return host->run->interpret(request->ctx, request->graph, out);
}

/* The tables of a plugin with one backend. */
#define FAULT_TABLES(name_, compile_)                                                 \
  static const tn_backend fault_backend = {                                           \
      .struct_size = sizeof(tn_backend), .name = TN_STR(name_), .compile = compile_}; \
  static const tn_backend* const fault_backends[] = {&fault_backend};                 \
  static const tn_plugin fault_plugin = {.struct_size = sizeof(tn_plugin),            \
                                         .abi_major = TN_ABI_MAJOR,                   \
                                         .abi_minor = TN_ABI_MINOR,                   \
                                         .backends = fault_backends,                  \
                                         .n_backends = 1}

#define FAULT_ENTRY(table)                                                        \
  tn_status* tenon_plugin_entry_v1(const tn_host* given, const tn_plugin** out) { \
    host = given;                                                                 \
    *out = table;                                                                 \
    return 0;                                                                     \
  }

#endif
