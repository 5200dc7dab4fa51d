// What a thread has set for autocast.
#pragma once

#include <tenon/autocast.h>

#include <cstdint>
#include <string>

namespace tenon {

/// What a thread has set: each type of device that has a list of ops has its own setting.
struct AutocastState {
  AutocastOptions cpu{.enabled = false};
  AutocastOptions cuda{.device = DeviceType::cuda, .enabled = false};

  bool is_on() const { return cpu.enabled || cuda.enabled; }
  /// Throws UserError for a type of device without a list.
  AutocastOptions& of(DeviceType device);
  /// A number that says what is cast to what: 0 where nothing is.
  uint64_t word() const;
  /// What has this word.
  static AutocastState of_word(uint64_t word);
};

/// Whether both cast alike.
inline bool same_casts(const AutocastState& a, const AutocastState& b) {
  return a.word() == b.word();
}
/// "off", "cpu bf16", "cpu bf16, cuda f16".
std::string to_text(const AutocastState& state);

/// What ThreadModes has no room for: it keeps the type of the CPU, and that anything is on.
struct DeviceCasts {
  bool on_cpu = false, on_cuda = false;
  Dtype cuda = Dtype::bf16;
  friend bool operator==(const DeviceCasts&, const DeviceCasts&) = default;
};
extern thread_local constinit DeviceCasts device_casts;

/// What this thread has set, and setting it. Throws UserError for what autocast does not do.
AutocastState autocast_state();
void set_autocast(const AutocastOptions& options);
void set_autocast_state(const AutocastState& state);

}  // namespace tenon
