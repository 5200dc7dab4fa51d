// The list of traces and their threads.
#include "core/tensor/owner_thread.h"

#include "core/error.h"

#include <algorithm>
#include <mutex>
#include <thread>

namespace tenon {

thread_local constinit int32_t n_bodies_along_paths = 0;

namespace {

struct OwnedTraces {
  struct Owned {
    uint64_t trace;
    const void* recorder;
    std::thread::id thread;
  };
  std::mutex lock;
  std::vector<Owned> all;
};

OwnedTraces& owned_traces() {
  static OwnedTraces& traces = *new OwnedTraces();
  return traces;
}

}  // namespace

void own_trace(uint64_t trace, const void* recorder) {
  OwnedTraces& traces = owned_traces();
  std::lock_guard lock(traces.lock);
  if (std::ranges::find(traces.all, trace, &OwnedTraces::Owned::trace) == traces.all.end())
    traces.all.push_back({trace, recorder, std::this_thread::get_id()});
}

void own_another_trace(uint64_t trace, const void* recorder) {
  OwnedTraces& traces = owned_traces();
  std::lock_guard lock(traces.lock);
  auto known = std::ranges::find(traces.all, recorder, &OwnedTraces::Owned::recorder);
  if (known != traces.all.end()) traces.all.push_back({trace, recorder, known->thread});
}

void disown_traces(const void* recorder) {
  OwnedTraces& traces = owned_traces();
  std::lock_guard lock(traces.lock);
  std::erase_if(traces.all, [=](const auto& owned) { return owned.recorder == recorder; });
}

bool is_of_other_thread(const Tensor& fake) {
  const TensorExtra* extra = impl_of(fake)->extra.get();
  if (!extra || !extra->trace_id) return false;  // on the device meta, or the library's own
  if (extra->trace_id >= first_frame_trace) return n_bodies_along_paths == 0;
  OwnedTraces& traces = owned_traces();
  std::lock_guard lock(traces.lock);
  auto owned = std::ranges::find(traces.all, extra->trace_id, &OwnedTraces::Owned::trace);
  return owned != traces.all.end() && owned->thread != std::this_thread::get_id();
}

void require_own_fake(const Tensor& fake, std::string_view what) {
  const TensorExtra* extra = impl_of(fake)->extra.get();
  require(
      !extra || extra->trace_id != lost_trace, ErrorCode::unsupported,
      "{}: the tensor ({}) has no data: the call of a compiled callable that made it ended with "
      "an error before it was computed; assign the tensor anew",
      what, fake);
  require(!is_of_other_thread(fake), ErrorCode::unsupported,
          "{}: the tensor ({}) belongs to the body of a compiled callable that runs on another "
          "thread, and has no data yet; use it on the body's thread, or start the threads in a "
          "function under disable(), which gets real tensors",
          what, fake);
}

}  // namespace tenon
