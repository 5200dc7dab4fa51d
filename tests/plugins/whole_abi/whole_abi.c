/* A backend in plain C that asks for all that the interface tells and gives it as its description.
 * It keeps every name of the headers in use that no other plugin of the tests needs.
 */
#include "describe.h"

#include <stdlib.h>
#include <string.h>

const tn_host* host;

/* ---- artifacts: the host's interpreter, and what was found out */

typedef struct {
  tn_artifact abi;
  tn_artifact* inner;
  tn_exprs* exprs;
  char* text;
} described;

static tn_status* call(tn_artifact* a, tn_call* c) {
  described* d = (described*)a->self;
  int64_t sizes[max_exprs];
  if (d->exprs) {
    tn_status* failed = host->sym->eval_kept(d->exprs, c->syms, sizes);
    if (failed) return failed;
  }
  return d->inner->api->call(d->inner, c);
}

static void destroy(tn_artifact* a) {
  described* d = (described*)a->self;
  d->inner->api->destroy(d->inner);
  if (d->exprs) host->sym->free_kept(d->exprs);
  free(d->text);
  free(d);
}

static tn_status* describe(tn_artifact* a, int32_t what, const tn_sink* sink) {
  described* d = (described*)a->self;
  static const char stats[] =
      "{\"kernels\": 0, \"extern_calls\": 0, \"extern_ops\": [], \"fused_nodes\": 0, "
      "\"planned_bytes\": 0, \"naive_bytes\": 0, \"compile_ms\": 0, \"codegen_ms\": 0, "
      "\"from_cache\": false}";
  const char* text = "";
  switch (what) {
    case TN_DESC_STATS_JSON:
      text = stats;
      break;
    case TN_DESC_SOURCE:
    case TN_DESC_GRAPH:
      text = d->text;
      break;
    case TN_DESC_IR:
    case TN_DESC_ASM:
    case TN_DESC_MEMORY_PLAN:
      text = "the host's interpreter makes none\n";
  }
  sink->write(sink->ctx, text, strlen(text));
  return NULL;
}

static const tn_artifact_api artifact_api = {.struct_size = sizeof artifact_api,
                                             .flags = TN_AF_SERIAL_ONLY,
                                             .call = call,
                                             .destroy = destroy,
                                             .describe = describe};

/* Expressions of the outputs' sizes, for the calls. */
static tn_status* keep_sizes(const tn_graph* g, tn_exprs** out) {
  const uint32_t* outputs;
  uint32_t exprs[max_exprs], n = 0, n_outputs = host->graph->outputs(g, &outputs);
  for (uint32_t i = 0; i < n_outputs; ++i) {
    tn_value_info v = {.struct_size = sizeof v};
    tn_status* failed = outputs[i] == TN_NO_VALUE ? NULL : host->graph->value(g, outputs[i], &v);
    if (failed) return failed;
    for (int32_t d = 0; v.sizes && d < v.ndim && n < max_exprs; ++d)
      if (v.sizes[d].expr != TN_EXPR_STATIC && !(v.sizes[d].flags & TN_DIM_UNBACKED))
        exprs[n++] = v.sizes[d].expr;
  }
  return n ? host->sym->keep(g, exprs, n, out) : NULL;
}

static tn_status* compile(void* self, const tn_compile_request* request, tn_artifact** out) {
  (void)self;
  if (request->flags >> 32) return host->status_new(TN_UNIMPLEMENTED, "unknown flags", 13);
  described* d = calloc(1, sizeof *d);
  if (!d) return host->status_new(TN_OUT_OF_MEMORY, "no memory", 9);
  tn_status* failed = describe_request(request, &d->text);
  if (!failed) failed = keep_sizes(request->graph, &d->exprs);
  if (!failed) failed = host->run->interpret(request->ctx, request->graph, &d->inner);
  if (failed) {
    if (d->exprs) host->sym->free_kept(d->exprs);
    free(d->text);
    free(d);
    return failed;
  }
  d->abi.api = &artifact_api;
  d->abi.self = d;
  *out = &d->abi;
  return NULL;
}

/* All nodes in one group: the graph is taken whole or not at all. */
static tn_status* judge(void* self, const tn_compile_request* request, tn_verdicts* v) {
  (void)self;
  (void)request;
  for (uint32_t n = 0; n < v->n_nodes; ++n) {
    v->verdict[n] = TN_SUPPORTED;
    v->group[n] = 1;
  }
  if (v->n_nodes) v->reason(v, 0, (tn_str)TN_STR("all of it"));
  return NULL;
}

/* ---- ops */

static tn_status* copy_of(const tn_tensor* x, tn_op_call* c) {
  if (c->n_out != 1) return host->status_new(TN_INTERNAL, "one result", 10);
  tn_status* failed = host->tensor->empty(x->sizes, x->strides, x->ndim, x->dtype, x->device_type,
                                          x->device_index, &c->out[0]);
  return failed ? failed : host->tensor->copy(c->out[0], x, NULL);
}

static tn_status* same_kernel(void* self, tn_op_call* c) {
  (void)self;
  return copy_of(c->values[c->args[0].u.value], c);
}

static tn_status* copied_kernel(void* self, tn_op_call* c) {
  (void)self;
  return copy_of(c->values[c->args[1].u.value], c);
}

static tn_status* same_vjp(void* self, tn_vjp_call* c) {
  (void)self;
  for (uint32_t i = 0; i < c->n_out; ++i) c->out[i] = c->grads[0];
  if (c->grads[0]) host->tensor->retain(c->grads[0]);
  return NULL;
}

static tn_status* same_meta(void* self, tn_meta_call* c) {
  (void)self;
  tn_value_info x = {.struct_size = sizeof x};
  const uint32_t* inputs;
  host->graph->inputs(c->graph, &inputs);
  tn_status* failed = host->graph->value(c->graph, inputs[0], &x);
  return failed ? failed : c->set_result(c, 0, x.dtype, x.sizes, x.strides, x.ndim);
}

static tn_status* add_ops(void) {
  const tn_custom_ops_api* ops = host->extension_at(TN_CUSTOM_OPS_ID, TN_CUSTOM_OPS_VERSION, 0);
  static const tn_instr negate = {TN_F_NEG, TN_F_COMPUTE_TYPE, 0, 0, 0};
  static const uint32_t output = 1;
  static const tn_formula negated = {.struct_size = sizeof negated,
                                     .n_inputs = 1,
                                     .n_outputs = 1,
                                     .n_instr = 1,
                                     .instr = &negate,
                                     .outputs = &output};
  static const tn_instr invert = {TN_F_BNOT, TN_F_COMPUTE_TYPE, 0, 0, 0};
  static const tn_formula inverted = {.struct_size = sizeof inverted,
                                      .n_inputs = 1,
                                      .n_outputs = 1,
                                      .n_instr = 1,
                                      .instr = &invert,
                                      .outputs = &output};
  tn_op_def same = {.struct_size = sizeof same,
                    .flags = TN_OP_PT2_COMPLIANT,
                    .schema = TN_STR("whole_abi::same(Tensor x) -> Tensor"),
                    .meta = same_meta,
                    .kernel = same_kernel,
                    .vjp = same_vjp};
  tn_op_def copied = {.struct_size = sizeof copied,
                      .flags = TN_OP_LIKE,
                      .schema = TN_STR("whole_abi::copied(int times, Tensor x) -> Tensor"),
                      .like_arg = 1,
                      .kernel = copied_kernel};
  tn_op_def by_formula = {.struct_size = sizeof by_formula,
                          .schema = TN_STR("whole_abi::negated(Tensor x) -> Tensor"),
                          .formula = &negated,
                          .formula_types = TN_TYPES_FLOAT | TN_TYPES_INT};
  tn_op_def of_bits = {.struct_size = sizeof of_bits,
                       .schema = TN_STR("whole_abi::inverted(Tensor x) -> Tensor"),
                       .formula = &inverted,
                       .formula_types = TN_TYPES_INT | TN_TYPES_BOOL};
  const tn_op_def* all[] = {&same, &copied, &by_formula, &of_bits};
  tn_status* failed = NULL;
  uint32_t id;
  for (size_t i = 0; i < sizeof all / sizeof all[0] && !failed; ++i) failed = ops->add(all[i], &id);
  return failed;
}

/* ---- kernels: a row that takes nothing */

static tn_status* run_kernel(void* self, uint32_t op_index, const tn_arg* args, uint32_t n_args,
                             tn_tensor* const* values, tn_stream* stream, tn_tensor** out,
                             uint32_t n_out) {
  (void)self, (void)op_index, (void)args, (void)n_args;
  (void)values, (void)stream, (void)out, (void)n_out;
  return host->status_new(TN_DECLINED, "nothing is taken", 16);
}

static const tn_str kernel_ops[] = {TN_STR("aten.erfinv.default")};
static const tn_kernels kernel_rows = {.struct_size = sizeof kernel_rows,
                                       .n_ops = 1,
                                       .device_type = TN_DEV_CPU,
                                       .ops = kernel_ops,
                                       .run = run_kernel};
static const tn_kernels* const kernels[] = {&kernel_rows};

static const tn_backend backend = {
    .struct_size = sizeof backend, .name = TN_STR("whole_abi"), .compile = compile, .judge = judge};
static const tn_backend* const backends[] = {&backend};
static const tn_plugin plugin = {.struct_size = sizeof plugin,
                                 .abi_major = TN_ABI_MAJOR,
                                 .abi_minor = TN_ABI_MINOR,
                                 .backends = backends,
                                 .kernels = kernels,
                                 .n_backends = 1,
                                 .n_kernels = 1};

tn_status* tenon_plugin_entry_v1(const tn_host* given, const tn_plugin** out) {
  host = given;
  tn_status* failed = add_ops();
  if (!failed) *out = &plugin;
  return failed;
}
