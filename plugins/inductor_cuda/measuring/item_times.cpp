// Events around items.
#include "item_times.h"

#include "../products/library.h"

namespace inductor_cuda {

ItemTimes::ItemTimes(const Device& device, size_t n_items)
    : device_(device), driver_(device), events_(2 * n_items), times_(n_items) {
  native_stream(device_, nullptr);  // events are of the thread's device
  for (void*& event : events_) TimingDriver::done(driver_.cuEventCreate(&event, 0), "an event");
}

ItemTimes::~ItemTimes() {
  for (void* event : events_)
    if (event) driver_.cuEventDestroy(event);
}

std::vector<ItemTime> ItemTimes::all() const {
  std::lock_guard lock(guarding_);
  return times_;
}

ItemTimes::Call::Call(ItemTimes& times, tn_stream* stream)
    : times_(times), alone_(times.guarding_), stream_(native_stream(times.device_, stream)) {}

void ItemTimes::Call::record(size_t event) {
  TimingDriver::done(times_.driver_.cuEventRecord(times_.events_[event], stream_), "an event");
}

void ItemTimes::Call::finish() {
  const TimingDriver& driver = times_.driver_;
  TimingDriver::done(driver.cuStreamSynchronize(stream_), "waiting for a call");
  constexpr double microseconds_of_ms = 1e3;
  for (size_t item : measured_) {
    float milliseconds = 0;
    TimingDriver::done(driver.cuEventElapsedTime(&milliseconds, times_.events_[2 * item],
                                                 times_.events_[2 * item + 1]),
                       "the time of an item");
    ++times_.times_[item].calls;
    times_.times_[item].microseconds += static_cast<double>(milliseconds) * microseconds_of_ms;
  }
}

}  // namespace inductor_cuda
