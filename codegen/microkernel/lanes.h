// A vector of the level's width, and how many of them a product's tile takes.
//
// A tile of `vectors` columns has as many rows as leave registers for the operands.
#pragma once

#include <cstdint>
#if defined(__AVX512F__)
#include <immintrin.h>  // masks; its functions are always inlined
#endif

namespace microkernel::MICROKERNEL_LEVEL {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64, panel_vectors = 4, most_sums = 24;  // of 32 registers
#elif defined(__AVX2__)
constexpr int vector_bytes = 32, panel_vectors = 2, most_sums = 12;  // of 16
#else
constexpr int vector_bytes = 16, panel_vectors = 2, most_sums = 8;  // of 16
#endif

constexpr int tile_rows(int64_t vectors) {
  return vectors == 1 ? most_sums / 2 : most_sums / static_cast<int>(vectors);
}

/// An integer as wide as a number.
template <int bytes>
struct IntegerOf {
  using Type = int32_t;
};
template <>
struct IntegerOf<8> {
  using Type = int64_t;
};

template <class T>
struct LanesOf {
  using Number = T;
  using Integer = typename IntegerOf<sizeof(T)>::Type;
  static constexpr int count = vector_bytes / static_cast<int>(sizeof(T));
  typedef T Vector __attribute__((vector_size(vector_bytes)));
  typedef T Unaligned __attribute__((vector_size(vector_bytes), aligned(alignof(T)), may_alias));
  typedef Integer Mask __attribute__((vector_size(vector_bytes)));
};
using Lanes = LanesOf<float>;
using Vector = Lanes::Vector;
constexpr int lane_count = Lanes::count;

template <class T>
static inline typename LanesOf<T>::Vector load(const T* p) {
  return *reinterpret_cast<const typename LanesOf<T>::Unaligned*>(p);
}
template <class T>
static inline void store(T* p, typename LanesOf<T>::Vector v) {
  *reinterpret_cast<typename LanesOf<T>::Unaligned*>(p) = v;
}
template <class T = float>
static inline typename LanesOf<T>::Vector repeat(typename LanesOf<T>::Number x) {
  return x - typename LanesOf<T>::Vector{};
}
#if defined(__AVX512F__)
static inline __m512 load_lanes(const float* p, uint32_t mask) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), p);
}
static inline __m512d load_lanes(const double* p, uint32_t mask) {
  return _mm512_maskz_loadu_pd(static_cast<__mmask8>(mask), p);
}
static inline void store_lanes(float* p, uint32_t mask, __m512 v) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>(mask), v);
}
static inline void store_lanes(double* p, uint32_t mask, __m512d v) {
  _mm512_mask_storeu_pd(p, static_cast<__mmask8>(mask), v);
}
#endif
/// The first n; others are 0.
template <class T>
static inline typename LanesOf<T>::Vector load(const T* p, int64_t n) {
  if (n >= LanesOf<T>::count) return load(p);
#if defined(__AVX512F__)
  return load_lanes(p, (1u << n) - 1);
#else
  typename LanesOf<T>::Vector out{};
  for (int64_t i = 0; i < n; ++i) out[i] = p[i];
  return out;
#endif
}
template <class T>
static inline void store(T* p, typename LanesOf<T>::Vector v, int64_t n) {
  if (n >= LanesOf<T>::count) return store(p, v);
#if defined(__AVX512F__)
  store_lanes(p, (1u << n) - 1, v);
#else
  for (int64_t i = 0; i < n; ++i) p[i] = v[i];
#endif
}
/// Lane by lane those of a and behind them b's, by number.
template <class T>
static inline typename LanesOf<T>::Vector shuffled(typename LanesOf<T>::Vector a,
                                                   typename LanesOf<T>::Vector b,
                                                   typename LanesOf<T>::Mask numbers) {
#if defined(__clang__)  // which wants the numbers to be constants
  typename LanesOf<T>::Vector out{};
  for (int l = 0; l < LanesOf<T>::count; ++l) {
    auto n = numbers[l];
    out[l] = n < LanesOf<T>::count ? a[n] : b[n - LanesOf<T>::count];
  }
  return out;
#else
  return __builtin_shuffle(a, b, numbers);
#endif
}
template <class T>
static inline typename LanesOf<T>::Vector clip(typename LanesOf<T>::Vector x, T low, T high) {
  auto at_least = x < low ? repeat<T>(low) : x;  // NaN stays
  return at_least > high ? repeat<T>(high) : at_least;
}

}  // namespace microkernel::MICROKERNEL_LEVEL
