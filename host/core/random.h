// Random numbers: Philox 4x32-10, counter based, so that number k of a seed never depends on
// threads.
//
// A call reserves a range of offsets and computes its numbers from (seed, offset + index) in any
// order. Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
#pragma once

#include <tenon/random.h>

#include <array>
#include <cstdint>
#include <source_location>

namespace tenon {

/// Takes `n_blocks` offsets from the process's generator: they begin at the returned state.
/// Threads: safe.
RngState reserve_random(uint64_t n_blocks);

/// rng_state() and set_rng_state() for code that puts back what it found; bodies need not know.
RngState current_rng_state();
void restore_rng_state(const RngState& state);
/// Told, with what it does, before the program looks at the state or sets it inside of a body, whose
/// operations so far draw from the old one. Set by capture/api.cpp.
extern void (*before_generator_slot)(const char* what, std::source_location where);

/// While one lives, what this thread draws comes from `state`, which moves on, and not from the
/// process's generator.
class DrawFrom {
 public:
  explicit DrawFrom(RngState& state);
  ~DrawFrom();
  DrawFrom(const DrawFrom&) = delete;

 private:
  RngState* before_;
};

/// The four numbers of one block.
inline std::array<uint32_t, 4> philox(uint64_t seed, uint64_t block) {
  std::array<uint32_t, 4> counter{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                                  0, 0};
  auto key0 = static_cast<uint32_t>(seed);
  auto key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t{0xD2511F53} * counter[0], b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(a)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

/// [0, 1) with 53 bits.
inline double uniform_double(uint32_t high, uint32_t low) {
  return static_cast<double>(((uint64_t{high} << 32) | low) >> 11) * 0x1p-53;
}

}  // namespace tenon
