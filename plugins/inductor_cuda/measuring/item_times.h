// The option `profile`: what each item of an executable takes on the device.
//
// Two events around an item are read when the call is over, which the host then waits for. Calls
// that are measured run one at a time, and are not recorded.
#pragma once

#include "timing_driver.h"

#include <mutex>
#include <string>
#include <vector>

namespace inductor_cuda {

struct ItemTime {
  int64_t calls = 0;
  double microseconds = 0;  // of all of them
};

/// Threads: any.
class ItemTimes {
 public:
  ItemTimes(const Device& device, size_t n_items);
  ItemTimes(const ItemTimes&) = delete;
  ~ItemTimes();

  /// One call on a stream, whose items are measured; it ends with the object.
  class Call {
   public:
    Call(ItemTimes& times, tn_stream* stream);
    Call(const Call&) = delete;
    /// Runs an item.
    template <class F>
    void measure(size_t item, F&& run) {
      record(2 * item);
      run();
      record(2 * item + 1);
      measured_.push_back(item);
    }
    /// Waits for the device and adds what the items took.
    void finish();

   private:
    void record(size_t event);
    ItemTimes& times_;
    std::unique_lock<std::mutex> alone_;
    void* stream_ = nullptr;  // the driver's
    std::vector<size_t> measured_;
  };

  std::vector<ItemTime> all() const;

 private:
  Device device_;
  TimingDriver driver_;
  mutable std::mutex guarding_;  // guards what follows
  std::vector<void*> events_;    // two an item
  std::vector<ItemTime> times_;
};

}  // namespace inductor_cuda
