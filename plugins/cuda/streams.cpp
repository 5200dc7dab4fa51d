// Streams and events of a GPU, kept for reuse.
#include "gpu.h"

#include <tenon/plugin.hpp>

namespace tenon::cuda {

namespace {

constexpr size_t most_idle_streams = 8;  // of a priority
constexpr size_t most_idle_events = 64;

}  // namespace

tn_stream* Gpu::new_stream(int priority) {
  bind();
  auto made = std::make_unique<tn_stream>(tn_stream{this, nullptr, priority, false});
  std::lock_guard lock(lists_);
  std::vector<api::Stream>& idle = idle_streams_[priority];
  if (idle.empty()) {
    CU_TRY(*this, "making a stream", cuStreamCreateWithPriority, &made->handle,
           api::stream_non_blocking, priority);
  } else {
    made->handle = idle.back();
    idle.pop_back();
  }
  made->kept = std::make_unique<KeptBlocks>();
  return streams_.emplace_back(made.release());
}

tn_stream* Gpu::wrap(void* handle) {
  bind();
  return new tn_stream{this, static_cast<api::Stream>(handle), 0, true};
}

void Gpu::put_back(tn_stream* stream) noexcept {
  std::unique_ptr<tn_stream> owned(stream);
  plugin::detail::quietly("cuda", [&] {
    if (stream->foreign || is_lost()) return;
    bind();
    {
      std::lock_guard lock(lists_);
      std::erase(streams_, stream);
    }
    give_back_kept(*stream);
    {
      std::lock_guard lock(lists_);
      std::vector<api::Stream>& idle = idle_streams_[stream->priority];
      if (idle.size() < most_idle_streams) return idle.push_back(stream->handle);
    }
    CU_TRY(*this, "freeing a stream", cuStreamDestroy, stream->handle);
  });
}

tn_event* Gpu::new_event(bool timing) {
  bind();
  auto made = std::make_unique<tn_event>(tn_event{this, nullptr, timing});
  std::lock_guard lock(lists_);
  if (!timing && !idle_events_.empty()) {
    made->handle = idle_events_.back();
    idle_events_.pop_back();
  } else {
    CU_TRY(*this, "making an event", cuEventCreate, &made->handle,
           timing ? 0u : unsigned{api::event_disable_timing});
  }
  return made.release();
}

void Gpu::put_back(tn_event* event) noexcept {
  std::unique_ptr<tn_event> owned(event);
  plugin::detail::quietly("cuda", [&] {
    if (is_lost()) return;
    bind();
    {
      std::lock_guard lock(lists_);
      if (!event->timing && idle_events_.size() < most_idle_events)
        return idle_events_.push_back(event->handle);
    }
    CU_TRY(*this, "freeing an event", cuEventDestroy, event->handle);
  });
}

}  // namespace tenon::cuda
