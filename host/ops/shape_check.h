// The check of one shape, for ops whose tensors must fit each other.
#pragma once

#include "core/error.h"
#include "ops/shapes.h"

#include <string_view>

namespace tenon {

/// Throws UserError unless `t`, called `what` in the message, has that shape. Sizes are compared by
/// guards.
inline void require_shape(std::string_view op, std::string_view what, const Tensor& t,
                          SymIntList shape) {
  bool fits = t.sizes().size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) fits = sizes_match(t.sizes()[i], shape[i]);
  require(fits, "{}: {} must have shape {}, found {}", op, what, shape, t.sizes());
}

}  // namespace tenon
