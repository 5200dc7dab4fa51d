// What a thread has set that decides what is recorded, as one word.
#pragma once

#include "core/device/matmul_precision.h"
#include "core/dispatch.h"
#include "core/grad_mode.h"
#include "ops/modes/autocast_state.h"

#include <cstdint>
#include <string>

namespace tenon {

/// Grad mode, deterministic mode, matmul precision, autocast and default device of this thread.
inline uint64_t global_state() {
  uint64_t autocast = thread_modes.include & bit(Key::autocast) ? autocast_state().word() : 0;
  Device made_on = thread_modes.default_device;
  uint64_t device = static_cast<uint64_t>(made_on.type) << 8 | static_cast<uint8_t>(made_on.index);
  return device << 32 | uint64_t{gradients_are_on()} | uint64_t{thread_modes.deterministic} << 1 |
         uint64_t{allows_tf32()} << 2 | autocast << 3;
}

/// What differs, with both values: "grad mode: expected off, found on".
std::string state_difference(uint64_t expected, uint64_t found);

}  // namespace tenon
