/* SPDX-License-Identifier: Apache-2.0 */
/* tenon/primitives.h - the host's loops over scalar primitives: extension "tenon.primitives",
 * version 1. Valid C11 and C++17; the rules of tenon/plugin.h hold.
 *
 *   const tn_primitives_api* primitives =
 *       host->extension(TN_PRIMITIVES_ID, TN_PRIMITIVES_VERSION);
 *   tn_primitive_fn sine = primitives->find(TN_F_SIN, TN_F32);
 *   if (sine) sine(out, &x, n, 0);
 *
 * For backends that run formulas without making code of them: the loops are vectorised for this
 * processor, and their results are those of the host's own kernels, bit by bit.
 */
#ifndef TENON_PRIMITIVES_H
#define TENON_PRIMITIVES_H
#include <tenon/plugin.h>
/* clang-format off */
#ifdef __cplusplus
extern "C" {
#endif

#define TN_PRIMITIVES_ID "tenon.primitives"
#define TN_PRIMITIVES_VERSION 1u

/* out[i] = f(in[0][i], in[1][i], ...) for n elements; bit i of `singles`: operand i is one number.
 * `out` may be an operand of elements as wide. Any thread, on that thread only; never fails. */
typedef void (*tn_primitive_fn)(void* out, const void* const* in, int64_t n, uint32_t singles);

typedef struct tn_primitives_api {
  uint32_t struct_size, _r0;
  /* Of a primitive (TN_F_...) of TN_F32 or TN_F64; NULL where there is none. Stays valid. */
  tn_primitive_fn (*find)(uint32_t code, int32_t dtype);
} tn_primitives_api;

#ifdef __cplusplus
}
#endif
#endif
