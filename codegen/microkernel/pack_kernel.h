// Packing of a matrix into panels.
//
// Method: of weights as a layer has them, [n, k] with k dense, squares of vectors are transposed in
// registers; of a matrix that is dense along n, rows are copied; any other goes number by number.
// Cost: half a nanosecond for a vector; a training step packs its weights anew.
#pragma once

#include "elements.h"
#include "kernels.h"

namespace microkernel::MICROKERNEL_LEVEL {

/// Lane i of row j goes to lane j of row i.
template <class T>
static inline void transpose(typename LanesOf<T>::Vector (&rows)[LanesOf<T>::count]) {
  constexpr int lanes = LanesOf<T>::count;
#pragma GCC unroll 4
  for (int s = lanes / 2; s > 0; s /= 2) {
    typename LanesOf<T>::Mask first{}, second{};
    for (int l = 0; l < lanes; ++l) {
      first[l] = (l & s) ? lanes + l - s : l;
      second[l] = (l & s) ? lanes + l : l + s;
    }
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) {
      if (i & s) continue;
      auto a = rows[i], b = rows[i + s];
      rows[i] = shuffled<T>(a, b, first);
      rows[i + s] = shuffled<T>(a, b, second);
    }
  }
}

/// k in steps of which each is a T: load_row(numbers, how many of them) gives a vector of steps.
template <class E, class T, class Load>
static void pack_transposed(const PackBlock& b, Load&& load_row) {
  constexpr int lanes = LanesOf<T>::count;
  auto* right = static_cast<const typename E::Number*>(b.right);
  for (int64_t p = 0; p < b.k; p += lanes * E::step)
    for (int64_t j = 0; j < b.width; j += lanes) {
      int64_t depth = b.k - p < lanes * E::step ? b.k - p : lanes * E::step;
      typename LanesOf<T>::Vector rows[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i)
        rows[i] = j + i < b.columns ? load_row(right + (j + i) * b.n_stride + p, depth)
                                    : typename LanesOf<T>::Vector{};
      transpose<T>(rows);
      T* to = static_cast<T*>(b.packed) + p / E::step * b.width + j;
      for (int64_t i = 0; i * E::step < depth; ++i) store(to + i * b.width, rows[i]);
    }
}

/// Number by number.
template <class E>
static void pack_any(const PackBlock& b) {
  using Number = typename E::Number;
  auto* right = static_cast<const Number*>(b.right);
  auto* to = static_cast<Number*>(b.packed);
  for (int64_t p = 0; p < b.k; p += E::step)
    for (int64_t j = 0; j < b.width; ++j)
      for (int64_t s = 0; s < E::step; ++s) {
        bool is_there = j < b.columns && p + s < b.k;
        *to++ = is_there ? right[(p + s) * b.k_stride + j * b.n_stride] : Number{};
      }
}

template <class T>
static void pack(const PackBlock& b) {
  auto load_row = [](const T* p, int64_t n) { return load(p, n); };
  if (b.k_stride == 1) return pack_transposed<Plain<T>, T>(b, load_row);
  if (b.n_stride != 1) return pack_any<Plain<T>>(b);
  for (int64_t p = 0; p < b.k; ++p) {
    const T* from = static_cast<const T*>(b.right) + p * b.k_stride;
    T* to = static_cast<T*>(b.packed) + p * b.width;
    for (int64_t j = 0; j < b.width; j += LanesOf<T>::count)
      store(to + j, load(from + j, b.columns - j));
  }
}

}  // namespace microkernel::MICROKERNEL_LEVEL
