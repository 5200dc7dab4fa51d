// What a run of one input may take: time, and memory beside what was there before.
#pragma once

#include <cstdint>

namespace tenon::fuzz {

/// Ends the process by a signal after 10 s of processor time or a minute of waiting: a hang.
/// From now on anew; the time of the input before counts no more.
void start_clock();

/// How much memory of this process has been in use at once, in bytes.
class MemoryPeak {
 public:
  MemoryPeak();
  /// Since this object was made, beyond what was in use then.
  int64_t growth() const;

 private:
  int64_t before_;
};

}  // namespace tenon::fuzz
