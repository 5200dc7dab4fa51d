// A vector of floats of the level's width, and how many of them a product's tile takes.
//
// A tile of `vectors` columns has as many rows as leave registers for the operands.
#pragma once

#include <cstdint>
#if defined(__AVX512F__)
#include <immintrin.h>  // masks; its functions are always inlined
#endif

namespace microkernel::MICROKERNEL_LEVEL {

#if defined(__AVX512F__)
constexpr int lane_count = 16, panel_vectors = 4, most_sums = 24;  // of 32 registers
#elif defined(__AVX2__)
constexpr int lane_count = 8, panel_vectors = 2, most_sums = 12;  // of 16
#else
constexpr int lane_count = 4, panel_vectors = 2, most_sums = 8;  // of 16
#endif

constexpr int tile_rows(int64_t vectors) {
  return vectors == 1 ? most_sums / 2 : most_sums / int(vectors);
}

struct Lanes {
  static constexpr int count = lane_count;
  typedef float Vector __attribute__((vector_size(lane_count * sizeof(float))));
  typedef float Unaligned
      __attribute__((vector_size(lane_count * sizeof(float)), aligned(alignof(float)), may_alias));
  typedef int32_t Mask __attribute__((vector_size(lane_count * sizeof(float))));
};
using Vector = Lanes::Vector;

static inline Vector load(const float* p) { return *reinterpret_cast<const Lanes::Unaligned*>(p); }
static inline void store(float* p, Vector v) { *reinterpret_cast<Lanes::Unaligned*>(p) = v; }
static inline Vector repeat(float x) { return x - Vector{}; }
/// The first n; others are 0.
static inline Vector load(const float* p, int64_t n) {
  if (n >= lane_count) return load(p);
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p);
#else
  Vector out{};
  for (int64_t i = 0; i < n; ++i) out[i] = p[i];
  return out;
#endif
}
static inline void store(float* p, Vector v, int64_t n) {
  if (n >= lane_count) return store(p, v);
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), v);
#else
  for (int64_t i = 0; i < n; ++i) p[i] = v[i];
#endif
}
static inline Vector clip(Vector x, float low, float high) {
  Vector at_least = x < low ? repeat(low) : x;  // NaN stays
  return at_least > high ? repeat(high) : at_least;
}

}  // namespace microkernel::MICROKERNEL_LEVEL
