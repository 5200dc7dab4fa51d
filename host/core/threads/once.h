// What is done once, whoever comes first.
#pragma once

#include <atomic>
#include <mutex>

namespace tenon {

/// Runs a function at the first call; all others wait for it. A function that throws is run again
/// by the next call. Not std::call_once(): an exception on its way through the C library needs
/// memory there, and where there is none the process ends.
class Once {
 public:
  template <class Function>
  void run(Function&& function) {
    if (done_.load(std::memory_order_acquire)) return;
    std::lock_guard lock(running_);
    if (done_.load(std::memory_order_relaxed)) return;
    function();
    done_.store(true, std::memory_order_release);
  }

 private:
  std::mutex running_;
  std::atomic<bool> done_{false};
};

}  // namespace tenon
