// Packing of a matrix into panels.
//
// Method: of weights as a layer has them, [n, k] with k dense, squares of vectors are transposed in
// registers; of a matrix that is dense along n, rows are copied; any other goes number by number.
// Cost: half a nanosecond for a vector; a training step packs its weights anew.
#pragma once

#include "lanes.h"

namespace microkernel::MICROKERNEL_LEVEL {

/// Lane i of row j goes to lane j of row i.
static inline void transpose(Vector (&rows)[lane_count]) {
#pragma GCC unroll 4
  for (int s = lane_count / 2; s > 0; s /= 2) {
    Lanes::Mask first{}, second{};
    for (int l = 0; l < lane_count; ++l) {
      first[l] = (l & s) ? lane_count + l - s : l;
      second[l] = (l & s) ? lane_count + l : l + s;
    }
#pragma GCC unroll 16
    for (int i = 0; i < lane_count; ++i) {
      if (i & s) continue;
      Vector a = rows[i], b = rows[i + s];
      rows[i] = __builtin_shuffle(a, b, first);
      rows[i + s] = __builtin_shuffle(a, b, second);
    }
  }
}

static void pack_transposed(const PackBlock& b) {
  for (int64_t p = 0; p < b.k; p += lane_count)
    for (int64_t j = 0; j < b.width; j += lane_count) {
      int64_t depth = b.k - p < lane_count ? b.k - p : lane_count;
      Vector rows[lane_count];
#pragma GCC unroll 16
      for (int i = 0; i < lane_count; ++i)
        rows[i] = j + i < b.columns ? load(b.right + (j + i) * b.n_stride + p, depth) : Vector{};
      transpose(rows);
      float* to = b.packed + p * b.width + j;
      for (int64_t i = 0; i < depth; ++i) store(to + i * b.width, rows[i]);
    }
}

static void pack(const PackBlock& b) {
  if (b.k_stride == 1) return pack_transposed(b);
  for (int64_t p = 0; p < b.k; ++p) {
    const float* from = b.right + p * b.k_stride;
    float* to = b.packed + p * b.width;
    for (int64_t j = 0; j < b.width; j += lane_count) {
      int64_t n = b.columns - j;
      if (b.n_stride == 1) {
        store(to + j, load(from + j, n));
        continue;
      }
      for (int64_t i = 0; i < lane_count; ++i)
        to[j + i] = i < n ? from[(j + i) * b.n_stride] : 0.0f;
    }
  }
}

}  // namespace microkernel::MICROKERNEL_LEVEL
