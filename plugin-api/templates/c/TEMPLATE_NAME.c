/* SPDX-License-Identifier: Apache-2.0 */
/* TEMPLATE_NAME: a backend in plain C that looks at each graph and lets the host run it.
 *
 * Where to go from here: make an artifact of your own, a struct with `call` and `destroy`, instead
 * of the host's interpreter. <tenon/plugin.h> says what each function does.
 */
#include <stdio.h>
#include <tenon/plugin.h>

static const tn_host* host;

static tn_status* refuse(int32_t code, const char* why, size_t n) {
  return host->status_new(code, why, n);
}

static tn_status* log_node(const tn_graph* graph, uint32_t id) {
  tn_node_info node = {.struct_size = sizeof node};
  tn_status* status = host->graph->node(graph, id, &node);
  if (status) return status;
  char line[256];
  int size = snprintf(line, sizeof line, "%.*s", (int)node.op_name.size, node.op_name.data);
  if (size > (int)sizeof line - 1) size = (int)sizeof line - 1;
  host->svc->log(TN_LOG_DEBUG, "TEMPLATE_NAME", line, (size_t)size);
  return NULL;
}

static tn_status* compile(void* self, const tn_compile_request* request, tn_artifact** out) {
  (void)self;
  /* Unknown bits 0..31 may be ignored; the others change what the request means. */
  if (request->flags >> 32) {
    static const char why[] = "TEMPLATE_NAME: the request has flags that this plugin does not know";
    return refuse(TN_UNIMPLEMENTED, why, sizeof why - 1);
  }
  uint32_t n = host->graph->node_count(request->graph);
  for (uint32_t id = 0; id < n; ++id) {
    tn_status* status = log_node(request->graph, id);
    if (status) return status;
  }
  return host->run->interpret(request->ctx, request->graph, out);
}

static const tn_backend backend = {
    .struct_size = sizeof backend, .name = TN_STR("TEMPLATE_NAME"), .compile = compile};
static const tn_backend* const backends[] = {&backend};
static const tn_plugin plugin = {.struct_size = sizeof plugin,
                                 .abi_major = TN_ABI_MAJOR,
                                 .abi_minor = TN_ABI_MINOR,
                                 .backends = backends,
                                 .n_backends = 1};

/* The only symbol that the plugin exports: called once, before anything else. */
tn_status* tenon_plugin_entry_v1(const tn_host* h, const tn_plugin** out) {
  host = h;
  *out = &plugin;
  return NULL;
}
