// Normalisation over channels that lie side by side: rows of channels, as inputs of two dimensions and
// of channels_last order have them. C is float or double.
#pragma once

#include <cstdint>

namespace tenon::kernels::columns {

/// Rows in memory, of C or of a 16-bit type that the functions convert to and from float.
struct Rows {
  const void* first;
  int64_t bytes;  ///< from one row to the next
  void (*widen)(const uint16_t* x, float* y, int64_t n);
  void (*narrow)(const float* x, uint16_t* y, int64_t n);
};

/// As channel_moments() of normalize.h, and so on, with inner = 1. `y` has the type of x.
template <class C>
void moments(const Rows& x, C* mean, C* m2, int64_t batch, int64_t channels);
template <class C>
void scale(const Rows& x, void* y, int64_t batch, int64_t channels, const C* center, const C* scale,
           const C* shift);
template <class C>
void gradient_sums(const C* g, const C* x, const C* center, double* of_g, double* of_gx,
                   int64_t batch, int64_t channels);
template <class C>
void combine(const C* g, const C* x, C* y, int64_t batch, int64_t channels, const C* center,
             const C* a, const C* b, const C* d);

}  // namespace tenon::kernels::columns
