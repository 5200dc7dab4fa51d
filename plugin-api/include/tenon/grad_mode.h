/* SPDX-License-Identifier: Apache-2.0 */
/* tenon/grad_mode.h - ops with gradients off or on: extension "tenon.grad_mode", version 1.
 * Valid C11 and C++17; the rules of tenon/plugin.h hold.
 *
 *   tn_str mode = host->graph->node_meta(graph, node, TN_STR("grad"));     in compile
 *   modes->run_op(op, TN_GRAD_OFF, args, n_args, values, stream, out, n);  in calls
 *
 * The nodes of a captured graph run as the caller has it, gradients on or off, but for those whose
 * node_meta "grad" is "off" or "on": there the program had a NoGradGuard or an EnableGradGuard. A
 * backend that neither asks for it nor lets the host run the graph (run->interpret,
 * run->compile_with) does not follow it: its fallback gets these nodes, and it the others.
 */
#ifndef TENON_GRAD_MODE_H
#define TENON_GRAD_MODE_H
#include <tenon/plugin.h>
/* clang-format off */
#ifdef __cplusplus
extern "C" {
#endif

#define TN_GRAD_MODE_ID "tenon.grad_mode"
#define TN_GRAD_MODE_VERSION 1u

enum { TN_GRAD_AS_CALLED = 0, TN_GRAD_OFF = 1, TN_GRAD_ON = 2 };

typedef struct tn_grad_mode_api {
  uint32_t struct_size, _r0;
  /* As run->run_op, with gradients as `mode` says: TN_GRAD_... Any thread. */
  tn_status* (*run_op)(uint32_t op, int32_t mode, const tn_arg* args, uint32_t n_args,
                       tn_tensor* const* values, tn_stream*, tn_tensor** out, uint32_t n_out);
} tn_grad_mode_api;

#ifdef __cplusplus
}
#endif
#endif
