// Rows of any floating type as rows of the type that they are computed in.
#pragma once

#include "core/kernels/level_table.h"
#include "core/tensor/allocator.h"

#include <tenon/half.h>

#include <cstdint>
#include <type_traits>

namespace tenon::kernels {

/// float for the 16-bit types, else the type itself.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
inline constexpr bool is_narrow = !std::is_floating_point_v<T>;

inline void widen(const Half* x, float* y, int64_t n) {
  kernel_table().from_f16(reinterpret_cast<const uint16_t*>(x), y, n);
}
inline void widen(const BFloat16* x, float* y, int64_t n) {
  kernel_table().from_bf16(reinterpret_cast<const uint16_t*>(x), y, n);
}
inline void narrow(const float* x, Half* y, int64_t n) {
  kernel_table().to_f16(x, reinterpret_cast<uint16_t*>(y), n);
}
inline void narrow(const float* x, BFloat16* y, int64_t n) {
  kernel_table().to_bf16(x, reinterpret_cast<uint16_t*>(y), n);
}

/// Scratch for one row of `n` elements in the compute type; none for float and double.
///   RowScratch<T> scratch(n);
///   const Compute<T>* x = scratch.read(row);       // the row itself, or a widened copy
///   Compute<T>* y = scratch.target(out);           // where to compute to
///   scratch.finish(out);                           // rounds what lies at target() to `out`
template <class T>
class RowScratch {
 public:
  explicit RowScratch(int64_t n)
      : n_(n), block_(is_narrow<T> ? static_cast<size_t>(n) * sizeof(float) : 0) {}

  const Compute<T>* read(const T* row) const {
    if constexpr (!is_narrow<T>) {
      return row;
    } else {
      widen(row, block_.template as<float>(), n_);
      return block_.template as<float>();
    }
  }
  Compute<T>* target(T* row) const {
    if constexpr (!is_narrow<T>)
      return row;
    else
      return block_.template as<float>();
  }
  void finish(T* row) const {
    if constexpr (is_narrow<T>) narrow(block_.template as<float>(), row, n_);
  }

 private:
  int64_t n_;
  HostBlock block_;
};

}  // namespace tenon::kernels
