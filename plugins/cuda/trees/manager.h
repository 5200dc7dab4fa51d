// What the recordings of one thread on one device share: their memory and their order.
#pragma once

#include "lent.h"

#include <mutex>

namespace tenon::cuda::trees {

/// Recordings of one manager use the same memory, so they run one after the other: a run on another
/// stream than the last one waits for it. Threads: `using_it` is held while they are looked up,
/// changed and enqueued, never while a function's own code runs directly.
class Manager {
 public:
  Manager(Gpu& gpu, size_t first_bytes) : arena_(gpu, first_bytes), lent_(arena_), gpu_(gpu) {}
  Manager(const Manager&) = delete;

  /// The calling thread's. Those of threads that have ended go to the next new one.
  static Manager& mine(Gpu& gpu, size_t first_bytes);
  static std::vector<Manager*> all();

  std::mutex using_it;
  Gpu& gpu() { return gpu_; }
  Arena& arena() { return arena_; }
  LentResults& lent() { return lent_; }
  /// Waits for the device where it is not known what this manager ran last.
  void settle();
  /// Makes the stream, which the caller uses, wait for what this manager ran last.
  void wait_for_last(tn_stream* stream);
  /// What was enqueued on the stream is the last. Never throws: where the driver refuses, the next
  /// run waits for the device.
  void mark_last(tn_stream* stream) noexcept;

 private:
  Arena arena_;
  LentResults lent_;
  Gpu& gpu_;
  api::Event last_ = nullptr;
  api::Stream last_stream_ = nullptr;
  bool is_marked_ = false, is_unknown_ = false;
};

}  // namespace tenon::cuda::trees
