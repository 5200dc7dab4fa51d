// The word of a thread's state, for people.
#include "guards/global_state.h"

#include "core/error.h"

namespace tenon {

namespace {

std::string on_or_off(uint64_t on) { return on ? "on" : "off"; }
std::string precision_text(uint64_t allows_tf32) { return allows_tf32 ? "high" : "highest"; }
std::string autocast_text(uint64_t word) { return to_text(AutocastState::of_word(word)); }
std::string device_text(uint64_t word) {
  return to_text(Device(static_cast<DeviceType>(word >> 8), static_cast<int8_t>(word & 0xff)));
}

/// A part of the word.
struct StatePart {
  const char* name;
  uint32_t shift, bits;
  std::string (*text)(uint64_t value);
  uint64_t of(uint64_t word) const { return word >> shift & ((uint64_t{1} << bits) - 1); }
};

constexpr StatePart parts[] = {
    {"grad mode", 0, 1, on_or_off},
    {"deterministic mode", 1, 1, on_or_off},
    {"float32 matmul precision", 2, 1, precision_text},
    {"autocast", 3, 29, autocast_text},
    {"default device", 32, 32, device_text},
};

}  // namespace

std::string state_difference(uint64_t expected, uint64_t found) {
  std::string out;
  for (const StatePart& part : parts) {
    uint64_t then = part.of(expected), now = part.of(found);
    if (then == now) continue;
    out += message("{}{}: expected {}, found {}", out.empty() ? "" : ", ", part.name,
                   part.text(then), part.text(now));
  }
  return out;
}

}  // namespace tenon
