// source[M, K] x weights + bias -> result[M, N] with weights that stay the same from call to call.
// Eager: the weights come with each call, and their packed form is found by tensor and version
// (packed_weights.h); how the work is done stands in prepared_inner_product.cpp.
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
  bool keeps_packed = true;  ///< where it may be; false: the weights may not come again
};

/// False when oneDNN has no good kernel for it; nothing is written then.
bool run_inner_product(const InnerProduct& call);

}  // namespace onednn
