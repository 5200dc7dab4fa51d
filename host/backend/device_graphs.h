// Recordings of devices: what the host asks of the plugin that keeps them (tenon.cuda/1).
#pragma once

#include <atomic>

namespace tenon {

/// A new iteration of the program begins: recordings may use the memory of earlier results again.
/// Loads nothing; does nothing where no plugin keeps recordings.
void begin_graph_generation();
/// Ends generations and drops all recordings, as tenon::reset() wants it.
void forget_recordings();

/// From here on tensors know whether a recording has overwritten them (core/device/overwritten.h),
/// and calls of callables are told to who keeps recordings.
void watch_recordings();

/// Whether watch_recordings() has found who keeps recordings.
extern std::atomic<bool> has_recordings;

/// Around a call of a compiled callable: that of the outermost one begins a call for recordings.
class GraphCall {
 public:
  GraphCall() : counts_(has_recordings.load(std::memory_order_relaxed)) {
    if (counts_) [[unlikely]]
      enter();
  }
  ~GraphCall() {
    if (counts_) [[unlikely]]
      leave();
  }
  GraphCall(const GraphCall&) = delete;

 private:
  static void enter();
  static void leave();
  bool counts_;
};

}  // namespace tenon
