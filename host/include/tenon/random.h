// SPDX-License-Identifier: Apache-2.0
// The generator behind random ops: seeding, and going back.
//
//     manual_seed(42);
//     Tensor a = randn({3});
//
// Numbers come from Philox 4x32-10 and depend on the seed and on the calls before, never on
// threads; eager and compiled code give the same bits. They are not those that PyTorch draws from
// its Mersenne Twister on the CPU for the same seed.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <source_location>

namespace tenon {

/// Starts the process's generator anew. Threads: safe; what other threads draw meanwhile counts.
TENON_API void manual_seed(uint64_t seed,
                           std::source_location where = std::source_location::current());
/// The seed that was set last, or the default.
TENON_API uint64_t initial_seed();

/// Where the generator stands: a seed and how many blocks of four numbers were taken.
struct RngState {
  uint64_t seed = 0, offset = 0;
  friend bool operator==(const RngState&, const RngState&) = default;
};
TENON_API RngState rng_state(std::source_location where = std::source_location::current());
TENON_API void set_rng_state(const RngState& state,
                             std::source_location where = std::source_location::current());

}  // namespace tenon
