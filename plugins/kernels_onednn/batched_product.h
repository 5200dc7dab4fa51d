// result[..., M, N] = alpha * source[..., M, K] x other[..., K, N] + beta * result (+ bias[N]),
// operands in any strides, none of them kept: products of values, and weights seen for the first
// time.
//
// oneDNN's `matmul` reads strided operands as they are. The work is cut along the first dimension
// that is long enough for all workers: a batch dimension, else rows, else columns.
#pragma once

#include <tenon/plugin.h>

#include <cstdint>
#include <vector>

namespace onednn {

struct BatchedProduct {
  int32_t dtype;
  std::vector<int64_t> batch;  ///< sizes of the batch dimensions, at most four
  int64_t m, k, n;
  const void *source, *other;
  std::vector<int64_t> source_strides, other_strides;  ///< batch dimensions, then the last two
  const void* bias = nullptr;
  float alpha = 1, beta = 0;  ///< with a bias alpha is 1
  void* result;               ///< dense
};

/// False when oneDNN has no good kernel for it; nothing is written then.
bool run_batched_product(const BatchedProduct& call);

}  // namespace onednn
