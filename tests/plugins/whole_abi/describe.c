/* The facts of a request, one line each. */
#include "describe.h"

#include <tenon/device.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  char* text;
  size_t size;
} lines;

__attribute__((format(printf, 2, 3))) static void say(lines* out, const char* pattern, ...) {
  char line[512];
  va_list args;
  va_start(args, pattern);
  int n = vsnprintf(line, sizeof line, pattern, args);
  va_end(args);
  size_t length = (size_t)(n < (int)sizeof line ? n : (int)sizeof line - 1);
  char* longer = realloc(out->text, out->size + length + 2);
  if (!longer) return;
  memcpy(longer + out->size, line, length);
  out->size += length;
  longer[out->size++] = '\n';
  longer[out->size] = 0;
  out->text = longer;
}

#define TEXT(s) (int)(s).size, (s).data

/* ---- names of codes */

typedef struct {
  uint64_t code;
  const char* name;
} named;

static void say_bits(lines* out, const char* what, uint64_t bits, const named* names, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (bits & names[i].code) say(out, "  %s %s", what, names[i].name);
}
static const char* name_in(uint64_t code, const named* names, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (names[i].code == code) return names[i].name;
  return "other";
}
#define SAY_BITS(out, what, bits, names) \
  say_bits(out, what, bits, names, sizeof names / sizeof names[0])
#define NAME_IN(code, names) name_in(code, names, sizeof names / sizeof names[0])

static const named value_flags[] = {{TN_V_PARAMETER, "parameter"},
                                    {TN_V_BUFFER, "buffer"},
                                    {TN_V_STATIC_ADDRESS, "static_address"},
                                    {TN_V_MUTATED, "mutated"},
                                    {TN_V_REQUIRES_GRAD, "requires_grad"},
                                    {TN_V_SAVED, "saved"},
                                    {TN_V_TANGENT, "tangent"},
                                    {TN_V_USER_OUTPUT, "user_output"}};
static const named kinds[] = {{TN_VAL_TENSOR, "tensor"},
                              {TN_VAL_SYMINT, "int"},
                              {TN_VAL_SYMFLOAT, "float"},
                              {TN_VAL_SYMBOOL, "bool"},
                              {TN_VAL_NONE, "none"}};
static const named formats[] = {{TN_FORMAT_CONTIGUOUS, "contiguous"},
                                {TN_FORMAT_PRESERVE, "preserve"},
                                {TN_FORMAT_CHANNELS_LAST, "channels_last"},
                                {TN_FORMAT_CHANNELS_LAST_3D, "channels_last_3d"}};
static const named devices[] = {{TN_DEV_CPU, "cpu"},
                                {TN_DEV_CUDA, "cuda"},
                                {TN_DEV_META, "meta"},
                                {TN_DEV_FIRST_DYNAMIC, "first of the others"}};
static const named tensor_flags[] = {{TN_T_FAKE, "fake"},
                                     {TN_T_REQUIRES_GRAD, "requires_grad"},
                                     {TN_T_CONTIGUOUS, "contiguous"},
                                     {TN_T_CHANNELS_LAST, "channels_last"},
                                     {TN_T_CONJ, "to be conjugated"},
                                     {TN_T_NEG, "to be negated"}};
static const named dtypes[] = {{TN_U8, "u8"},     {TN_I8, "i8"},   {TN_I16, "i16"},
                               {TN_I32, "i32"},   {TN_I64, "i64"}, {TN_F16, "f16"},
                               {TN_F32, "f32"},   {TN_F64, "f64"}, {TN_BF16, "bf16"},
                               {TN_BOOL, "bool"}, {TN_C64, "c64"}, {TN_C128, "c128"}};
static const named sources[] = {
    {TN_SRC_INPUT, "an input"}, {TN_SRC_CONSTANT, "a constant"}, {TN_SRC_NODE, "a node"}};
static const named dim_flags[] = {{TN_DIM_HAS_HINT, "with a hint"},
                                  {TN_DIM_UNBACKED, "known to the run"},
                                  {TN_DIM_REAL, "a real number"}};
static const named stages[] = {{TN_STAGE_CAPTURED, "captured"},
                               {TN_STAGE_FORWARD, "forward"},
                               {TN_STAGE_BACKWARD, "backward"},
                               {TN_STAGE_INFERENCE, "inference"}};
static const named tags[] = {{TN_TAG_POINTWISE, "pointwise"},
                             {TN_TAG_REDUCTION, "reduction"},
                             {TN_TAG_VIEW, "view"},
                             {TN_TAG_INPLACE, "in place"},
                             {TN_TAG_RANDOM, "random"},
                             {TN_TAG_DATA_DEPENDENT, "data dependent"},
                             {TN_TAG_CORE, "core"},
                             {TN_TAG_MATMUL, "matmul"},
                             {TN_TAG_CONV, "convolution"},
                             {TN_TAG_SIDE_EFFECT, "side effect"},
                             {TN_TAG_HIGHER_ORDER, "higher order"},
                             {TN_TAG_CREATION, "creation"},
                             {TN_TAG_NONDETERMINISTIC, "nondeterministic"},
                             {TN_TAG_MAYBE_ALIAS, "maybe alias"},
                             {TN_TAG_BY_PLACE, "by place"},
                             {TN_TAG_ROUNDS_NUMBERS, "rounds numbers"}};
static const named recompute[] = {{TN_RECOMPUTE_NONE, "as it likes"},
                                  {TN_RECOMPUTE_MUST_SAVE, "must save"},
                                  {TN_RECOMPUTE_PREFER, "prefer"},
                                  {TN_RECOMPUTE_MUST, "must"}};
static const named arguments[] = {{TN_ARG_VALUE, "value"},
                                  {TN_ARG_VALUES, "values"},
                                  {TN_ARG_BOOL, "bool"},
                                  {TN_ARG_INT, "int"},
                                  {TN_ARG_FLOAT, "float"},
                                  {TN_ARG_STRING, "string"},
                                  {TN_ARG_DTYPE, "dtype"},
                                  {TN_ARG_INTS, "ints"},
                                  {TN_ARG_FLOATS, "floats"},
                                  {TN_ARG_BOOLS, "bools"},
                                  {TN_ARG_STRINGS, "strings"},
                                  {TN_ARG_SYMINT, "symbolic int"},
                                  {TN_ARG_SYMINTS, "symbolic ints"},
                                  {TN_ARG_GRAPH, "graph"},
                                  {TN_ARG_COMPLEX, "complex"},
                                  {TN_ARG_DEVICE, "device"},
                                  {TN_ARG_LAYOUT, "layout"},
                                  {TN_ARG_MEMORY_FORMAT, "memory format"},
                                  {TN_ARG_SYMFLOAT, "real number"},
                                  {TN_ARG_SYMBOOL, "truth value"}};
static const named request_flags[] = {{TN_RQ_DYNAMIC, "dynamic"},
                                      {TN_RQ_DETERMINISTIC, "deterministic"},
                                      {TN_RQ_GRAD_ENABLED, "grad enabled"},
                                      {TN_RQ_ALLOWS_TF32, "tf32 allowed"}};
static const named op_arg_flags[] = {{TN_OA_KEYWORD_ONLY, "keyword only"},
                                     {TN_OA_WRITTEN, "written"}};
static const named expr_ops[] = {
    {TN_EX_TRUEDIV, "/"}, {TN_EX_TO_FLOAT, "float"}, {TN_EX_TRUNC, "trunc"},   {TN_EX_NE, "!="},
    {TN_EX_LT, "<"},      {TN_EX_AND, "and"},        {TN_EX_OR, "or"},         {TN_EX_NOT, "not"},
    {TN_EX_SELECT, "?:"}, {TN_EX_CONST, "const"},    {TN_EX_SYMBOL, "symbol"}, {TN_EX_ADD, "+"},
    {TN_EX_MUL, "*"},     {TN_EX_FLOORDIV, "//"},    {TN_EX_CEILDIV, "/^"},    {TN_EX_MOD, "%"},
    {TN_EX_MIN, "min"},   {TN_EX_MAX, "max"},        {TN_EX_POW, "power"},     {TN_EX_EQ, "=="},
    {TN_EX_LE, "<="}};
static const named codes[] = {{TN_OK, "ok"},
                              {TN_CANCELLED, "cancelled"},
                              {TN_TIMEOUT, "timeout"},
                              {TN_ALREADY_EXISTS, "already exists"},
                              {TN_PERMISSION_DENIED, "permission denied"},
                              {TN_NOT_FOUND, "not found"},
                              {TN_ABORTED, "aborted"}};

/* ---- the graph */

static tn_status* say_value(lines* out, const tn_graph* g, uint32_t id) {
  tn_value_info v = {.struct_size = sizeof v};
  tn_status* failed = host->graph->value(g, id, &v);
  if (failed) return failed;
  const uint32_t* users;
  uint32_t n_users = host->graph->users(g, id, &users);
  say(out, "value %.*s: %s of %s %u, %s, result %u, %u uses by %u nodes, alias group %u",
      TEXT(v.name), NAME_IN(v.kind, kinds), NAME_IN(v.source, sources), v.source_index,
      NAME_IN((uint64_t)v.dtype, dtypes), v.result_index, v.n_uses, n_users, v.alias_group);
  for (int32_t d = 0; v.sizes && d < v.ndim; ++d)
    SAY_BITS(out, "a size is", v.sizes[d].flags, dim_flags);
  if (v.kind == TN_VAL_TENSOR && v.layout == TN_LAYOUT_STRIDED)
    say(out, "  on %s, %s", NAME_IN((uint64_t)v.device_type, devices),
        NAME_IN((uint64_t)v.memory_format, formats));
  SAY_BITS(out, "is", v.flags, value_flags);
  return NULL;
}

static void say_op(lines* out, uint32_t op) {
  const tn_ops_api* ops = host->ops;
  tn_op_info info = {.struct_size = sizeof info};
  tn_status* failed = ops->info(op, &info);
  if (failed) {
    host->status_free(failed);
    return;
  }
  say(out, "  %u results, f32 kernel on CPUs: %d", info.n_returns,
      ops->has_kernel(op, TN_DEV_CPU, TN_F32));
  for (uint32_t i = 0; i < info.n_args; ++i) {
    const tn_op_arg* arg = &info.args[i];
    say(out, "  argument %.*s = %.*s", TEXT(arg->name), TEXT(arg->default_text));
    SAY_BITS(out, "it is", arg->flags, op_arg_flags);
  }
  for (uint32_t i = 0; i < info.n_decomposition_sets; ++i)
    say(out, "  taken apart in %.*s", TEXT(info.decomposition_sets[i]));
  tn_formula f = {.struct_size = sizeof f};
  if (!TN_HAS(ops, formula)) return;
  failed = ops->formula(op, NULL, 0, TN_FP_POINTWISE, &f);
  if (failed) {
    host->status_free(failed);
    return;
  }
  say(out, "  a formula of %u instructions", f.n_instr);
}

static tn_status* say_node(lines* out, const tn_graph* g, uint32_t id) {
  tn_node_info n = {.struct_size = sizeof n};
  tn_status* failed = host->graph->node(g, id, &n);
  if (failed) return TN_HAS(host, status_at) ? host->status_at(failed, g, id) : failed;
  say(out, "node %.*s: %.*s in module %.*s, %s", TEXT(n.name), TEXT(n.op_name), TEXT(n.module_path),
      NAME_IN(n.recompute, recompute));
  say(out, "  at %.*s:%d in %.*s, seq %d", TEXT(n.source_file), n.source_line,
      TEXT(n.source_function), n.seq_nr);
  SAY_BITS(out, "is", n.tags, tags);
  for (uint32_t i = 0; i < n.n_args; ++i)
    if (n.args[i].kind != TN_ARG_NONE)
      say(out, "  argument %u: %s", i, NAME_IN(n.args[i].kind, arguments));
  if (TN_HAS(host->graph, node_meta))
    say(out, "  meta %zu", host->graph->node_meta(g, id, (tn_str)TN_STR("region")).size);
  say_op(out, n.op);
  return NULL;
}

static void add_text(void* to, const char* text, size_t size) {
  say((lines*)to, "%.*s", (int)size, text);
}

/* The graph by its own printer, and as a picture's text. */
static tn_status* say_dumps(lines* out, const tn_graph* g) {
  tn_sink sink = {.ctx = out, .write = add_text};
  tn_status* failed = host->graph->dump(g, TN_DUMP_CANONICAL, &sink);
  return failed ? failed : host->graph->dump(g, TN_DUMP_DOT, &sink);
}

static tn_status* say_graph(lines* out, tn_ctx* ctx, const tn_graph* g) {
  const tn_graph_api* graphs = host->graph;
  tn_status* failed = NULL;
  uint32_t n_values = graphs->value_count(g), n_nodes = graphs->node_count(g);
  for (uint32_t i = 0; i < n_values && !failed; ++i) failed = say_value(out, g, i);
  for (uint32_t i = 0; i < n_nodes && !failed; ++i) failed = say_node(out, g, i);
  const uint32_t* symbols;
  uint32_t n_symbols = graphs->symbols(g, &symbols);
  for (uint32_t i = 0; i < n_symbols && !failed; ++i) {
    const tn_sym_api* sym = host->sym;
    tn_expr_info e = {.struct_size = sizeof e};
    failed = sym->info(g, symbols[i], &e);
    if (!failed) say(out, "%s %.*s of %u", NAME_IN(e.op, expr_ops), TEXT(e.name), e.n_operands);
  }
  if (failed || n_nodes == 0) return failed;
  const uint32_t first = 0, *outer_inputs, *outer_outputs;
  const tn_graph* part;
  const tn_run_api* run = host->run;
  failed = run->extract(ctx, g, &first, 1, &part, &outer_inputs, &outer_outputs);
  if (!failed) say(out, "the first node alone has %u values", graphs->value_count(part));
  return failed;
}

/* ---- options, services, tensors */

static tn_status* say_options(lines* out, const tn_compile_request* rq) {
  const tn_opt_api* opt = host->opt;
  int32_t loud = 0, cse = 0;
  int64_t level = 0, limit = 0;
  double share = 0, budget = 0;
  tn_str style = {0}, name = {0};
  const tn_str* parts = NULL;
  uint32_t n_parts = 0;
  tn_status* failed = opt->get_bool(rq->options, (tn_str)TN_STR("loud"), &loud);
  if (!failed) failed = opt->get_i64(rq->options, (tn_str)TN_STR("level"), &level);
  if (!failed) failed = opt->get_f64(rq->options, (tn_str)TN_STR("share"), &share);
  if (!failed) failed = opt->get_str(rq->options, (tn_str)TN_STR("style"), &style);
  if (!failed) failed = opt->get_list(rq->options, (tn_str)TN_STR("parts"), &parts, &n_parts);
  if (!failed) failed = opt->config_bool(rq->ctx, (tn_str)TN_STR("functorch.cse"), &cse);
  if (!failed) failed = opt->config_i64(rq->ctx, (tn_str)TN_STR("dynamo.recompile_limit"), &limit);
  if (!failed)
    failed =
        opt->config_f64(rq->ctx, (tn_str)TN_STR("functorch.activation_memory_budget"), &budget);
  if (!failed) failed = opt->config_str(rq->ctx, (tn_str)TN_STR("compiler.default_backend"), &name);
  if (failed) return failed;
  say(out, "options %d %" PRId64 " %g %.*s %u", loud, level, share, TEXT(style), n_parts);
  say(out, "flags %d %" PRId64 " %g %.*s", cse, limit, budget, TEXT(name));
  return NULL;
}

static tn_status* say_tensors(lines* out, const tn_compile_request* rq) {
  const tn_tensor_api* tensors = host->tensor;
  for (uint32_t i = 0; i < rq->n_inputs; ++i)
    if (rq->example_inputs[i])
      SAY_BITS(out, "an input is", rq->example_inputs[i]->flags, tensor_flags);
  const int64_t sizes[] = {2, 3};
  tn_tensor *made = NULL, *again = NULL;
  void* capsule = NULL;
  tn_status* failed = tensors->empty(sizes, NULL, 2, TN_F32, TN_DEV_CPU, -1, &made);
  if (failed) return failed;
  if (TN_HAS(tensors, to_dlpack)) failed = tensors->to_dlpack(made, &capsule);
  if (capsule) failed = tensors->from_dlpack(capsule, &again);
  if (again)
    say(out, "by DLPack and back: %d, version %" PRIu64, again->data == made->data,
        TN_VERSION(made));
  if (again) tensors->release(again);
  const int64_t column[] = {2}, step[] = {3};
  tn_tensor* second = NULL;
  if (!failed) failed = tensors->as_strided(made, column, step, 1, 1, &second);
  if (second) {
    say(out, "a column begins %td bytes behind", (char*)second->data - (char*)made->data);
    tensors->release(second);
  }
  tensors->release(made);
  return failed;
}

static tn_status* say_services(lines* out, const tn_compile_request* rq) {
  const tn_svc_api* svc = host->svc;
  uint64_t seed = 0, offset = 0;
  if (svc->log_level("whole_abi") <= TN_LOG_TRACE) svc->log(TN_LOG_TRACE, "whole_abi", "here", 4);
  if (svc->log_level("whole_abi") > TN_LOG_CRITICAL) say(out, "nothing is logged");
  tn_str category = TN_STR("test"), name = TN_STR("describe"), none = TN_STR("{}");
  if (svc->trace_on && svc->trace_on()) {
    svc->trace(TN_TRACE_BEGIN, category, name, none);
    svc->trace(TN_TRACE_COUNTER, category, name, none);
    svc->trace(TN_TRACE_END, category, name, none);
  }
  if (svc->debug_dir) say(out, "dumps go to %.*s", TEXT(svc->debug_dir(rq->ctx)));
  tn_status* failed = svc->rng_reserve(TN_DEV_CPU, -1, 0, &seed, &offset);
  if (failed) return failed;
  if (!svc->cache_put) return NULL;
  failed = svc->cache_put(rq->ctx, name, "kept", 4);
  tn_blob* blob = NULL;
  tn_status* missed = failed ? NULL : svc->cache_get(rq->ctx, name, &blob);
  if (missed) host->status_free(missed);
  if (blob) {
    say(out, "%zu bytes were kept", svc->blob_bytes(blob).size);
    svc->blob_release(blob);
  }
  return failed;
}

/* A status with its cause, looked at and freed. */
static void say_status(lines* out) {
  tn_status* cause = host->status_new(TN_TIMEOUT, "late", 4);
  tn_status* wrapped = host->status_wrap(cause, "asking", 6);
  say(out, "a status: %s, %.*s", NAME_IN((uint64_t)host->status_code(wrapped), codes),
      TEXT(host->status_message(wrapped)));
  host->status_free(wrapped);
}

tn_status* describe_request(const tn_compile_request* rq, char** text) {
  lines out = {0};
  say(&out, "host %.*s, stage %s, %u saved", TEXT(host->host_version),
      NAME_IN((uint64_t)rq->stage, stages), rq->n_saved);
  SAY_BITS(&out, "request:", rq->flags, request_flags);
  tn_status* failed = say_graph(&out, rq->ctx, rq->graph);
  if (!failed) failed = say_dumps(&out, rq->graph);
  if (!failed) failed = say_options(&out, rq);
  if (!failed) failed = say_tensors(&out, rq);
  if (!failed) failed = say_services(&out, rq);
  say_status(&out);
  if (failed) host->svc->log(TN_LOG_ERROR, "whole_abi", "a question failed", 17);
  if (!out.text) host->svc->log(TN_LOG_WARN, "whole_abi", "nothing to tell", 15);
  *text = out.text;
  return failed;
}
