// Copies to and from the dtypes that are stored but not computed on: complex and f8.
#pragma once

#include "core/kernels/pointwise_loop.h"

namespace tenon {

/// dst[i] = src[i], converted, for any two dtypes. Complex to real keeps the real part.
void convert_stored_types(const Operand& dst, const Operand& src, std::span<const int64_t> sizes);

}  // namespace tenon
