// Sums over one dimension, pairwise.
#pragma once

#include "core/kernels/narrow.h"

#include <cstdint>

namespace tenon::kernels {

/// out[o * inner + i] = sum over p of x[(o * n + p) * inner + i]: x is a contiguous array of
/// outer x n x inner, out one of outer x inner. T is float, double, Half or BFloat16; 16-bit values
/// are summed in float, which is also the type of `out`. An empty sum is 0. The order of additions
/// depends on the sizes alone; the error grows with log n. Runs on the threads of the pool.
template <class T>
void sum(const T* x, Compute<T>* out, int64_t outer, int64_t n, int64_t inner);

}  // namespace tenon::kernels
