// Transposition in blocks of 8 by 8, for elements of 2 and 4 bytes.
#include "transpose.h"

#include <immintrin.h>

#include <algorithm>

#define TENON_AVX2 __attribute__((target("avx2")))

namespace onednn {

namespace {

/// b[c * to_step + r] = a[r * from_step + c] for 8 by 8 elements of 4 bytes.
TENON_AVX2 void block(const uint32_t* a, int64_t from_step, uint32_t* b, int64_t to_step) {
  __m256 in[8], pairs[8], quads[8];
  for (int r = 0; r < 8; ++r)
    in[r] = _mm256_loadu_ps(reinterpret_cast<const float*>(a + r * from_step));
  for (int r = 0; r < 4; ++r) {
    pairs[2 * r] = _mm256_unpacklo_ps(in[2 * r], in[2 * r + 1]);
    pairs[2 * r + 1] = _mm256_unpackhi_ps(in[2 * r], in[2 * r + 1]);
  }
  for (int h = 0; h < 2; ++h)
    for (int p = 0; p < 2; ++p) {
      quads[4 * h + 2 * p] = _mm256_shuffle_ps(pairs[4 * h + p], pairs[4 * h + 2 + p], 0x44);
      quads[4 * h + 2 * p + 1] = _mm256_shuffle_ps(pairs[4 * h + p], pairs[4 * h + 2 + p], 0xEE);
    }
  for (int c = 0; c < 4; ++c) {
    auto* low = reinterpret_cast<float*>(b + c * to_step);
    auto* high = reinterpret_cast<float*>(b + (c + 4) * to_step);
    _mm256_storeu_ps(low, _mm256_permute2f128_ps(quads[c], quads[c + 4], 0x20));
    _mm256_storeu_ps(high, _mm256_permute2f128_ps(quads[c], quads[c + 4], 0x31));
  }
}

/// The same for elements of 2 bytes.
TENON_AVX2 void block(const uint16_t* a, int64_t from_step, uint16_t* b, int64_t to_step) {
  __m128i in[8], pairs[8], quads[8];
  for (int r = 0; r < 8; ++r)
    in[r] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a + r * from_step));
  for (int r = 0; r < 4; ++r) {
    pairs[2 * r] = _mm_unpacklo_epi16(in[2 * r], in[2 * r + 1]);
    pairs[2 * r + 1] = _mm_unpackhi_epi16(in[2 * r], in[2 * r + 1]);
  }
  for (int h = 0; h < 2; ++h)
    for (int p = 0; p < 2; ++p) {
      quads[4 * h + 2 * p] = _mm_unpacklo_epi32(pairs[4 * h + p], pairs[4 * h + 2 + p]);
      quads[4 * h + 2 * p + 1] = _mm_unpackhi_epi32(pairs[4 * h + p], pairs[4 * h + 2 + p]);
    }
  for (int c = 0; c < 4; ++c) {
    auto* even = reinterpret_cast<__m128i*>(b + 2 * c * to_step);
    auto* odd = reinterpret_cast<__m128i*>(b + (2 * c + 1) * to_step);
    _mm_storeu_si128(even, _mm_unpacklo_epi64(quads[c], quads[c + 4]));
    _mm_storeu_si128(odd, _mm_unpackhi_epi64(quads[c], quads[c + 4]));
  }
}

/// Channels and positions that do not fill a block; one of the two ranges may be empty.
template <class T, class Move>
void move_rest(int64_t channels, int64_t positions, Move move) {
  int64_t c0 = channels / 8 * 8, p0 = positions / 8 * 8;
  for (int64_t p = 0; p < p0; ++p)
    for (int64_t c = c0; c < channels; ++c) move(c, p);
  for (int64_t p = p0; p < positions; ++p)
    for (int64_t c = 0; c < channels; ++c) move(c, p);
}

template <class T>
TENON_AVX2 void gather(const T* planes, int64_t plane, T* tile, int64_t channels,
                       int64_t positions) {
  constexpr int64_t together =
      64 / static_cast<int64_t>(sizeof(T));  // channels that fill a cache line
  for (int64_t first = 0; first + 8 <= channels; first += together) {
    int64_t last = std::min(first + together, channels / 8 * 8);
    for (int64_t p = 0; p + 8 <= positions; p += 8)
      for (int64_t c = first; c < last; c += 8)
        block(planes + c * plane + p, plane, tile + p * channels + c, channels);
  }
  move_rest<T>(channels, positions,
               [&](int64_t c, int64_t p) { tile[p * channels + c] = planes[c * plane + p]; });
}

template <class T>
TENON_AVX2 void scatter(const T* tile, T* planes, int64_t plane, int64_t channels,
                        int64_t positions) {
  constexpr int64_t together = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t first = 0; first + 8 <= channels; first += together) {
    int64_t last = std::min(first + together, channels / 8 * 8);
    for (int64_t p = 0; p + 8 <= positions; p += 8)
      for (int64_t c = first; c < last; c += 8)
        block(tile + p * channels + c, channels, planes + c * plane + p, plane);
  }
  move_rest<T>(channels, positions,
               [&](int64_t c, int64_t p) { planes[c * plane + p] = tile[p * channels + c]; });
}

}  // namespace

bool transposes_well(int64_t channels, int64_t positions) {
  return channels >= 8 && positions >= 8 && __builtin_cpu_supports("avx2");
}

void to_channels_last(const void* planes, int64_t plane, void* tile, int64_t channels,
                      int64_t positions, int64_t element) {
  if (element == 4)
    gather(static_cast<const uint32_t*>(planes), plane, static_cast<uint32_t*>(tile), channels,
           positions);
  else
    gather(static_cast<const uint16_t*>(planes), plane, static_cast<uint16_t*>(tile), channels,
           positions);
}

void from_channels_last(const void* tile, void* planes, int64_t plane, int64_t channels,
                        int64_t positions, int64_t element) {
  if (element == 4)
    scatter(static_cast<const uint32_t*>(tile), static_cast<uint32_t*>(planes), plane, channels,
            positions);
  else
    scatter(static_cast<const uint16_t*>(tile), static_cast<uint16_t*>(planes), plane, channels,
            positions);
}

}  // namespace onednn
