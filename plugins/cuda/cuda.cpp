// The plugin cuda: NVIDIA GPUs as a device of the host. Each slot of the table is one call of Gpu.
#include "code_api.h"
#include "gpu.h"
#include "installation.h"
#include "trees/recording.h"

#include <tenon/plugin.hpp>

namespace {

using namespace tenon::cuda;
using tenon::plugin::barrier;
using tenon::plugin::error;

tn_status* count(void*, int32_t* out) {
  return barrier([&] {
    *out = opened().devices;
    if (!opened().why_not.empty()) throw error(TN_UNAVAILABLE, opened().why_not);
  });
}

tn_status* props(void*, int32_t dev, tn_device_props* out) {
  return barrier([&] { gpu_at(dev).fill(*out); });
}

tn_status* alloc(void*, int32_t dev, size_t bytes, tn_stream* stream, void** out) {
  return barrier([&] { *out = gpu_at(dev).allocate(bytes, stream); });
}
void free_memory(void*, int32_t dev, void* memory, size_t bytes, tn_stream* stream) {
  if (memory) gpu_at(dev).release(memory, bytes, stream);
}

tn_status* host_alloc(void*, size_t bytes, void** out) {
  return barrier([&] { *out = allocate_pinned(bytes); });
}
void host_free(void*, void* memory, size_t bytes) {
  if (memory) free_pinned(memory, bytes);
}

tn_status* copy(void*, int32_t dev, void* to, const void* from, size_t bytes, int32_t direction,
                tn_stream* stream) {
  return barrier([&] { gpu_at(dev).copy(to, from, bytes, direction, stream); });
}
tn_status* fill(void*, int32_t dev, void* to, uint8_t byte, size_t bytes, tn_stream* stream) {
  return barrier([&] { gpu_at(dev).set(to, byte, bytes, stream); });
}

tn_status* stream_new(void*, int32_t dev, int32_t priority, tn_stream** out) {
  return barrier([&] { *out = gpu_at(dev).new_stream(priority); });
}
tn_status* stream_wrap(void*, int32_t dev, void* native, tn_stream** out) {
  return barrier([&] { *out = gpu_at(dev).wrap(native); });
}
void stream_free(void*, tn_stream* stream) {
  if (stream) stream->gpu->put_back(stream);
}
tn_status* stream_sync(void*, tn_stream* stream) {
  return barrier([&] { stream->gpu->synchronize(stream); });
}
void* stream_native(void*, tn_stream* stream) { return stream->handle; }
tn_status* device_sync(void*, int32_t dev) {
  return barrier([&] { gpu_at(dev).synchronize(); });
}

tn_status* event_new(void*, int32_t dev, int32_t timing, tn_event** out) {
  return barrier([&] { *out = gpu_at(dev).new_event(timing != 0); });
}
void event_free(void*, tn_event* event) {
  if (event) event->gpu->put_back(event);
}
// Events order streams, and a recording is of one.
void end_recording(const trees::StreamUse& use, const char* why) {
  if (trees::Recording* r = use.recording()) r->give_up({"capture_failed", why});
}
tn_status* event_record(void*, tn_event* event, tn_stream* stream) {
  return barrier([&] {
    event->gpu->bind();
    trees::StreamUse use(stream);
    end_recording(use, "an event is recorded");
    CU_TRY(*event->gpu, "recording an event", cuEventRecord, event->handle, stream->handle);
  });
}
tn_status* event_wait(void*, tn_event* event, tn_stream* stream) {
  return barrier([&] {
    stream->gpu->bind();
    trees::StreamUse use(stream);
    end_recording(use, "an event is waited for");
    CU_TRY(*stream->gpu, "making a stream wait", cuStreamWaitEvent, stream->handle, event->handle,
           0);
  });
}
int32_t event_done(void*, tn_event* event) {
  int32_t done = 0;
  tenon::plugin::detail::quietly("cuda", [&] {
    event->gpu->bind();
    api::Result result = driver().cuEventQuery(event->handle);
    done = result == api::success;
    if (!done && result != api::error_not_ready)
      check(*event->gpu, result, "cuEventQuery", "asking for an event");
  });
  return done;
}
tn_status* event_elapsed_ms(void*, tn_event* begin, tn_event* end, double* out) {
  return barrier([&] {
    float ms = 0;
    begin->gpu->bind();
    CU_TRY(*begin->gpu, "reading a time", cuEventElapsedTime, &ms, begin->handle, end->handle);
    *out = ms;
  });
}

tn_status* trim(void*, int32_t dev) {
  return barrier([&] { gpu_at(dev).trim(); });
}
tn_status* memory_stats(void*, int32_t dev, tn_device_memory* out) {
  return barrier([&] { gpu_at(dev).fill(*out); });
}

tn_status* describe_all(void*, const tn_sink* sink) {
  return barrier([&] {
    driver();
    std::string text = describe_installation();
    sink->write(sink->ctx, text.data(), text.size());
  });
}

const tn_device_provider provider = {
    .struct_size = sizeof(tn_device_provider),
    ._r0 = 0,
    .type_name = TN_STR("cuda"),
    .self = nullptr,
    .count = count,
    .props = props,
    .alloc = alloc,
    .free = free_memory,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .copy = copy,
    .fill = fill,
    .stream_new = stream_new,
    .stream_free = stream_free,
    .stream_sync = stream_sync,
    .stream_native = stream_native,
    .device_sync = device_sync,
    .event_new = event_new,
    .event_free = event_free,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_done = event_done,
    .event_elapsed_ms = event_elapsed_ms,
    .stream_wrap = stream_wrap,
    .trim = trim,
    .memory_stats = memory_stats,
    .describe = describe_all,
};

}  // namespace

TENON_PLUGIN(p) {
  p.device(provider);
  p.extension(TN_CUDA_ID, TN_CUDA_VERSION, &code_api());
}
