// A vector of floats of the level's width, and how many of them a product's tile takes.
#pragma once

#include <cstdint>

namespace microkernel::MICROKERNEL_LEVEL {

#if defined(__AVX512F__)
constexpr int lane_count = 16, panel_vectors = 4, tile_rows = 6;  // 24 of 32 registers
#elif defined(__AVX2__)
constexpr int lane_count = 8, panel_vectors = 2, tile_rows = 6;  // 12 of 16
#else
constexpr int lane_count = 4, panel_vectors = 2, tile_rows = 4;  // 8 of 16
#endif

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
  Vector out{};
  for (int64_t i = 0; i < n; ++i) out[i] = p[i];
  return out;
}
static inline void store(float* p, Vector v, int64_t n) {
  if (n >= lane_count) return store(p, v);
  for (int64_t i = 0; i < n; ++i) p[i] = v[i];
}
static inline Vector clip(Vector x, float low, float high) {
  Vector at_least = x < low ? repeat(low) : x;  // NaN stays
  return at_least > high ? repeat(high) : at_least;
}

}  // namespace microkernel::MICROKERNEL_LEVEL
