/* SPDX-License-Identifier: Apache-2.0 */
/* tenon/custom_ops.h - ops that plugins add: extension "tenon.custom_ops", version 1. Valid C11 and
 * C++17; the rules of tenon/plugin.h hold. Authors in C++ include <tenon/custom_ops.hpp> instead.
 *
 *   const tn_custom_ops_api* ops = host->extension(TN_CUSTOM_OPS_ID, TN_CUSTOM_OPS_VERSION);
 *   uint32_t id;
 *   tn_status* status = ops->add(&def, &id);        in the plugin's entry
 *
 * The manifest says `requires = ["tenon.custom_ops/1"]` and names each op in an [[op]] table: a
 * graph, an archive or a program that names one of them loads the plugin. An added op is an op like
 * any other: it is found by ops->find, captured, put into graphs, and given to backends, which get
 * its formula from ops->formula. It stays until the process ends.
 */
#ifndef TENON_CUSTOM_OPS_H
#define TENON_CUSTOM_OPS_H
#include <tenon/plugin.h>
/* clang-format off */
#ifdef __cplusplus
extern "C" {
#endif

#define TN_CUSTOM_OPS_ID "tenon.custom_ops"
#define TN_CUSTOM_OPS_VERSION 1u

/* One call. Arguments as in run->run_op: schema order, defaults filled in, TN_ARG_VALUE(S) index
 * `values`, which are borrowed. In a decomposition tensors may be fakes (data == NULL). */
typedef struct tn_op_call {
  uint32_t struct_size, op;            /* id of the op */
  uint32_t n_args, n_out;
  const tn_arg* args; tn_tensor* const* values;
  tn_tensor** out;                     /* [n_out] new references; a written argument that the schema
                                          returns may be left NULL */
  tn_stream* stream;
} tn_op_call;

/* What the results of a call look like. `graph` holds the call as node 0, its tensors as inputs:
 * arguments and values are asked of it, and sizes may be symbolic. New sizes are built with
 * sym->make and sym->constant from its expressions. */
typedef struct tn_meta_call tn_meta_call;
struct tn_meta_call {
  uint32_t struct_size, op;
  uint32_t n_out, _r0;
  const tn_graph* graph;
  void* host_data;
  /* Tells result i; copied. `strides` NULL = contiguous. */
  tn_status* (*set_result)(tn_meta_call*, uint32_t i, int32_t dtype, const tn_dim* sizes,
                           const tn_dim* strides, int32_t ndim);
};

/* The derivative: from the gradients of the results those of the tensor arguments. Uses
 * run->run_op, so that it can be recorded and derived again; tensors may be fakes. */
typedef struct tn_vjp_call {
  uint32_t struct_size, op;
  uint32_t n_args, n_results, n_out, _r0;
  const tn_arg* args; tn_tensor* const* values;
  tn_tensor* const* results; tn_tensor* const* grads;  /* [n_results]; a gradient may be NULL */
  /* [n_out] one for each tensor argument and each element of a list, in order; may be NULL */
  tn_tensor** out;
} tn_vjp_call;

enum { TN_OP_PT2_COMPLIANT = 1,        /* may enter graphs when only such ops are allowed */
       TN_OP_LIKE = 2 };               /* results have dtype, sizes and strides of `like_arg` */
enum { TN_TYPES_FLOAT = 1, TN_TYPES_INT = 2, TN_TYPES_BOOL = 4 };  /* compute types of a formula */

/* An op. Copied by `add`, but for `self` and the functions, which are called on any threads at once
 * until shutdown. At least one of kernel, formula and decompose; at least one of meta, TN_OP_LIKE,
 * formula and decompose unless the op has no results. */
typedef struct tn_op_def {
  uint32_t struct_size, flags;         /* TN_OP_... */
  tn_str schema;                       /* "my::swiglu(Tensor x, *, float beta=1.0) -> Tensor" */
  uint64_t tags;                       /* TN_TAG_... that the rest does not tell: RANDOM, ... */
  void* self;
  /* The op per element. Inputs are the schema's arguments in order, tensors and numbers; from it
   * follow promotion, broadcasting, meta and eager kernel. input_args is not read; input_dtypes may
   * be NULL. */
  const tn_formula* formula;
  uint32_t formula_types;              /* TN_TYPES_...; 0 = TN_TYPES_FLOAT */
  uint32_t like_arg;                   /* position of a tensor argument, with TN_OP_LIKE */
  tn_status* (*meta)(void* self, tn_meta_call*);
  tn_status* (*kernel)(void* self, tn_op_call*);     /* CPU */
  tn_status* (*decompose)(void* self, tn_op_call*);  /* by run->run_op */
  tn_status* (*vjp)(void* self, tn_vjp_call*);
} tn_op_def;

typedef struct tn_custom_ops_api {
  uint32_t struct_size, _r0;
  /* TN_ALREADY_EXISTS when the name is taken, TN_INVALID_ARGUMENT for a definition that does not
   * fit its schema or lacks a part; nothing is added then. */
  tn_status* (*add)(const tn_op_def*, uint32_t* op);
} tn_custom_ops_api;

/* clang-format on */
#ifdef __cplusplus
}
#endif
#endif
