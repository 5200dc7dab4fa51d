// Softmax and its logarithm over one dimension.
#pragma once

#include <cstdint>

namespace tenon::kernels {

/// x and y are contiguous arrays of outer x n x inner; the sum runs over the middle. They may be
/// the same array. T is float, double, Half or BFloat16 (computed in float). A row of -inf only, or
/// one that holds +inf or NaN, gives NaN. Runs on the threads of the pool; their number changes no
/// bit.
template <class T>
void softmax(const T* x, T* y, int64_t outer, int64_t n, int64_t inner, bool logarithm);

}  // namespace tenon::kernels
