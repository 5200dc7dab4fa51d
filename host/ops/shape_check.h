// Checks that shape functions make, so that compiled code refuses what the kernel would: one shape,
// one dtype.
#pragma once

#include "core/error.h"
#include "ops/shapes.h"

#include <string_view>

namespace tenon {

/// Whether a size is 0 for every value of the symbols.
inline bool is_surely_empty(const Tensor& t) {
  for (SymInt s : t.sizes())
    if (!s.is_symbolic() && s.word() == 0) return true;
  return false;
}

/// Throws UserError unless `t`, called `what` in the message, has that shape. Sizes are compared by
/// guards.
inline void require_shape(std::string_view op, std::string_view what, const Tensor& t,
                          SymIntList shape) {
  bool fits = t.sizes().size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) fits = sizes_match(t.sizes()[i], shape[i]);
  require(fits, "{}: {} must have shape {}, found {}", op, what, shape, t.sizes());
}

/// Throws UserError unless `t` can be an index. What is surely empty may have any dtype.
inline void require_index_dtype(std::string_view op, const Tensor& t) {
  bool is_index = t.dtype() == Dtype::i64 || t.dtype() == Dtype::i32;
  require(is_index || is_surely_empty(t), "{}: indices must be i64 or i32, found {}", op,
          t.dtype());
}

/// Throws UserError unless the kernel `op` computes on the dtype.
inline void require_floating(std::string_view op, Dtype dtype) {
  require(is_floating(dtype), ErrorCode::unsupported,
          "{} computes on floating dtypes only, found {}; cast the input", op, dtype);
}
inline void require_real(std::string_view op, Dtype dtype) {
  require(!is_complex(dtype), ErrorCode::unsupported,
          "{} does not compute on dtype {}; cast the input to a real dtype", op, dtype);
}

}  // namespace tenon
