// Packing of a bf16 matrix into panels of pairs: the two numbers of a step of k side by side.
//
// Method: where k is dense, pairs are there already and are transposed as numbers of 32 bits; where
// n is, two rows are put together; any other goes number by number.
#pragma once

#include "pack_kernel.h"
#include "pairs.h"

namespace microkernel::MICROKERNEL_LEVEL {

static void pack_pairs(const PackBlock& b) {
  auto load_row = [](const uint16_t* p, int64_t n) { return (Vector)Pairs::load_numbers(p, n); };
  if (b.k_stride == 1) return pack_transposed<Pairs, float>(b, load_row);
  if (b.n_stride != 1) return pack_any<Pairs>(b);
  for (int64_t p = 0; p < b.k; p += 2) {
    auto* from = static_cast<const uint16_t*>(b.right) + p * b.k_stride;
    auto* to = static_cast<uint16_t*>(b.packed) + p * b.width;
    bool is_pair = p + 1 < b.k;
    for (int64_t j = 0; j < b.width; j += lane_count) {
      int64_t n = b.columns - j;
      __m512i first = Pairs::load_halves(from + j, n);
      __m512i second = is_pair ? Pairs::load_halves(from + b.k_stride + j, n) : __m512i{};
      _mm512_storeu_si512(to + 2 * j, _mm512_or_si512(first, _mm512_slli_epi32(second, 16)));
    }
  }
}

}  // namespace microkernel::MICROKERNEL_LEVEL
