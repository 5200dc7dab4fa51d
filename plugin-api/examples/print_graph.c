/* SPDX-License-Identifier: Apache-2.0 */
/* print_graph: logs every node, then lets the host's interpreter do the work. Plain C. */
#include <stdio.h>
#include <tenon/plugin.h>

TN_MANIFEST(
    "manifest = 1\n"
    "[plugin]\n"
    "name = 'print_graph'\n"
    "version = '0.1.0'\n"
    "abi = '1.0'\n"
    "[[backend]]\n"
    "name = 'print_graph'\n"
    "description = 'prints the captured graph, runs it eagerly'\n"
    "tags = ['debug']\n"
    "stage = 'captured'\n"
    "devices = ['*']\n"
    "dynamic_shapes = true\n");

static const tn_host* host;

static tn_status* log_node(const tn_graph* graph, uint32_t id) {
  tn_node_info node = {.struct_size = sizeof node};
  tn_status* status = host->graph->node(graph, id, &node);
  if (status) return status;
  char line[256];
  int size = snprintf(line, sizeof line, "%%%u = %.*s", node.first_result, (int)node.op_name.size,
                      node.op_name.data);
  if (size > (int)sizeof line - 1) size = (int)sizeof line - 1;
  host->svc->log(TN_LOG_INFO, "print_graph", line, (size_t)size);
  return NULL;
}

static tn_status* compile(void* self, const tn_compile_request* request, tn_artifact** out) {
  (void)self;
  if (request->flags >> 32) {
    static const char why[] = "print_graph: the request has flags that it does not know";
    return host->status_new(TN_UNIMPLEMENTED, why, sizeof why - 1);
  }
  uint32_t n = host->graph->node_count(request->graph);
  for (uint32_t id = 0; id < n; ++id) {
    tn_status* status = log_node(request->graph, id);
    if (status) return status;
  }
  return host->run->interpret(request->ctx, request->graph, out);
}

static const tn_backend backend = {
    .struct_size = sizeof backend, .name = TN_STR("print_graph"), .compile = compile};
static const tn_backend* const backends[] = {&backend};
static const tn_plugin plugin = {.struct_size = sizeof plugin,
                                 .abi_major = TN_ABI_MAJOR,
                                 .abi_minor = TN_ABI_MINOR,
                                 .backends = backends,
                                 .n_backends = 1};

tn_status* tenon_plugin_entry_v1(const tn_host* h, const tn_plugin** out) {
  host = h;
  *out = &plugin;
  return NULL;
}
