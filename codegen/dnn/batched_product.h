// result[..., M, N] = alpha * source[..., M, K] x other[..., K, N] + beta * result (+ bias[N]),
// operands in any strides, none of them kept: products of values, and weights seen for the first
// time. How the work is done stands in prepared_batched_product.cpp.
#pragma once

#include "prepared.h"

namespace onednn {

struct BatchedProduct {
  BatchedProductShape shape;
  const void *source, *other;
  const void* bias = nullptr;  ///< with one shape.bias is true
  void* result;
};

/// Whether a product of two matrices adds its terms in another order than one with packed weights.
bool adds_in_other_order(const BatchedProductShape& shape);

/// False when oneDNN has no good kernel for it; nothing is written then.
bool run_batched_product(const BatchedProduct& call);

}  // namespace onednn
