// Masks among indices.
#pragma once

#include <tenon/tensor.h>

namespace tenon {

/// Whether an index names elements by where it holds, not by their positions.
inline bool is_mask(const Tensor& t) {
  return t.defined() && (t.dtype() == Dtype::bool_ || t.dtype() == Dtype::u8);
}

}  // namespace tenon
