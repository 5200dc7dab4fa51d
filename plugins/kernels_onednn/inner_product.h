// source[M, K] x weights + bias -> result[M, N] with weights that stay the same from call to call.
//
// Method (measured: threads.md of the design; 2 cores with AVX-512, 254 of 256 GF/s a core in f32):
// oneDNN's `inner_product` with the weights in the layout it likes best, made once and kept. Many
// rows: each worker takes rows, all read the same packed weights. Few rows: each worker takes
// columns, with packed weights of its own; its dense tile is then copied into place, because a
// strided result makes oneDNN leave its fast kernels.
#pragma once

#include <tenon/plugin.h>

#include <cstdint>

namespace onednn {

struct InnerProduct {
  int32_t dtype;  ///< of all tensors: TN_F32 or TN_BF16
  int64_t m, k, n;
  const void* source;  ///< dense rows
  const tn_tensor* weights;
  int64_t weights_n_stride, weights_k_stride;  ///< element (n, k) of the weights
  const void* bias;                            ///< n elements, or null
  void* result;                                ///< dense rows
};

/// False when oneDNN has no good kernel for it; nothing is written then.
bool run_inner_product(const InnerProduct& call);

}  // namespace onednn
