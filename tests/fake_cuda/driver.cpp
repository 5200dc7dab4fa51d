// The driver's functions over the double's memory and streams.
#include "world.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace fake_cuda {

namespace {

EventState* state_of(api::Event event) { return reinterpret_cast<EventState*>(event); }

Result finish(World& w, StreamState* stream) {
  if (!stream) return invalid_handle;
  if (Result refused = refused_by_capture(stream)) return refused;
  return w.streams.run_until([stream] { return stream->queue.empty(); });
}

// ---- start and devices

Result init(unsigned) {
  World& w = world();
  std::lock_guard lock(w.lock);
  if (Result instead = interrupted(w, "cuInit")) return instead;
  if (setting("CRASH", 0)) std::abort();
  w.started = true;
  return w.devices > 0 ? api::success : api::error_no_device;
}
Result driver_version(int* version) {
  *version = world().version;
  return api::success;
}
Result error_name(Result, const char** name) {
  *name = "FAKE_CUDA_ERROR";
  return api::success;
}
Result error_string(Result, const char** text) {
  *text = "an error of the double";
  return api::success;
}
Result device_count(int* count) {
  return call("cuDeviceGetCount", [&](World& w) {
    *count = w.devices;
    return api::success;
  });
}
Result device_get(api::Ordinal* device, int ordinal) {
  *device = ordinal;
  return api::success;
}
Result device_name(char* name, int length, api::Ordinal device) {
  return call("cuDeviceGetName", [&](World&) {
    std::snprintf(name, static_cast<size_t>(length), "double of a GPU, number %d", device);
    return api::success;
  });
}
Result total_memory(size_t* bytes, api::Ordinal) {
  *bytes = world().memory.capacity();
  return api::success;
}
// Few multiprocessors, otherwise what a GPU of the Hopper generation has.
int property(const World& w, int32_t which) {
  switch (which) {
    case api::attribute_multiprocessors:
      return 4;
    case api::attribute_capability_major:
      return w.capability / 10;
    case api::attribute_capability_minor:
      return w.capability % 10;
    case api::attribute_warp:
    case api::attribute_blocks_per_multiprocessor:
      return 32;
    case api::attribute_threads_per_block:
      return 1024;
    case api::attribute_threads_per_multiprocessor:
      return 2048;
    case api::attribute_registers_per_block:
    case api::attribute_registers_per_multiprocessor:
      return 65536;
    case api::attribute_shared_per_block:
      return 48 << 10;
    case api::attribute_shared_per_block_most:
      return 227 << 10;
    case api::attribute_shared_per_multiprocessor:
      return 228 << 10;
    case api::attribute_l2_bytes:
      return 50 << 20;
    default:
      return 1;
  }
}
Result attribute(int* value, int32_t which, api::Ordinal) {
  return call("cuDeviceGetAttribute", [&](World& w) {
    *value = property(w, which);
    return api::success;
  });
}
Result retain_context(api::Context* context, api::Ordinal device) {
  return call("cuDevicePrimaryCtxRetain", [&](World&) {
    *context = reinterpret_cast<api::Context>(static_cast<intptr_t>(device + 1));
    return api::success;
  });
}
Result set_context(api::Context context) {
  return call("cuCtxSetCurrent", [&](World&) {
    current = static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1;
    return api::success;
  });
}

// ---- memory

Result memory_info(size_t* free, size_t* total) {
  return call("cuMemGetInfo", [&](World& w) {
    *total = w.memory.capacity();
    *free = *total - w.memory.used(current);
    return api::success;
  });
}
// A pool is its device, counted from 1.
Result make_pool(api::Pool* pool, const api::PoolProperties* properties) {
  return call("cuMemPoolCreate", [&](World&) {
    *pool = reinterpret_cast<api::Pool>(static_cast<intptr_t>(properties->location_id + 1));
    return api::success;
  });
}
Result destroy_pool(api::Pool) { return api::success; }
Result set_pool(api::Pool, int32_t, void*) {
  return call("cuMemPoolSetAttribute", [](World&) { return api::success; });
}
Result read_pool(api::Pool pool, int32_t which, void* value) {
  return call("cuMemPoolGetAttribute", [&](World& w) {
    int device = static_cast<int>(reinterpret_cast<intptr_t>(pool)) - 1;
    bool high = which == api::pool_used_high;
    *static_cast<uint64_t*>(value) = high ? w.memory.peak(device) : w.memory.used(device);
    return api::success;
  });
}
Result trim_pool(api::Pool, size_t) {
  return call("cuMemPoolTrimTo", [](World&) { return api::success; });
}
Result allocate(Address* address, size_t bytes, api::Pool pool, api::Stream stream) {
  return call("cuMemAllocFromPoolAsync", [&](World& w) -> Result {
    if (Result refused = refused_by_capture(state_of(w, stream))) return refused;
    int device = static_cast<int>(reinterpret_cast<intptr_t>(pool)) - 1;
    std::optional<Address> at = w.memory.allocate(device, bytes);
    if (!at) return api::error_out_of_memory;
    *address = *at;
    return api::success;
  });
}
Result release(Address address, api::Stream stream) {
  return call("cuMemFreeAsync", [&](World& w) -> Result {
    if (!w.memory.work(address, 0)) return api::error_invalid_value;
    if (Result refused = refused_by_capture(state_of(w, stream))) return refused;
    return enqueue(w, stream, {{}, [&w, address] {
                                 w.memory.release(address);
                                 return api::success;
                               }});
  });
}
Result pin(void** memory, size_t bytes, unsigned) {
  return call("cuMemHostAlloc", [&](World& w) -> Result {
    *memory = std::malloc(bytes);
    if (!*memory) return api::error_out_of_memory;
    w.pinned.emplace(*memory, bytes);
    return api::success;
  });
}
Result unpin(void* memory) {
  return call("cuMemFreeHost", [&](World& w) -> Result {
    if (w.pinned.erase(memory) == 0) return api::error_invalid_value;
    std::free(memory);
    return api::success;
  });
}

// Pageable memory is read when the call is made, as the driver's own staging does, and written
// before it returns.
Result copy(Address to, Address from, size_t bytes, api::Stream stream) {
  return call("cuMemcpyAsync", [&](World& w) -> Result {
    bool from_host = !w.memory.is_device(from), to_host = !w.memory.is_device(to);
    bool is_pageable =
        (from_host && !is_pinned(w, from, bytes)) || (to_host && !is_pinned(w, to, bytes));
    if (is_pageable)
      if (Result refused = refused_by_capture(state_of(w, stream))) return refused;
    if (from_host && !is_pinned(w, from, bytes)) {
      auto staged = std::make_shared<std::vector<char>>(bytes);
      std::memcpy(staged->data(), reinterpret_cast<void*>(from), bytes);
      return enqueue(w, stream, {{}, [&w, to, staged]() -> Result {
                                   void* target = w.memory.work(to, staged->size());
                                   if (!target) return illegal_address;
                                   std::memcpy(target, staged->data(), staged->size());
                                   return api::success;
                                 }});
    }
    Node node{.kind = Node::Kind::copy};
    node.to = to;
    node.from = from;
    node.count = bytes;
    if (Result failed = enqueue_node(w, stream, std::move(node))) return failed;
    return to_host && !is_pinned(w, to, bytes) ? finish(w, state_of(w, stream)) : api::success;
  });
}
Result set(const char* function, Address to, unsigned value, unsigned element_bytes, size_t count,
           api::Stream stream) {
  return call(function, [&](World& w) {
    Node node{.kind = Node::Kind::set};
    node.to = to;
    node.value = value;
    node.element_bytes = element_bytes;
    node.count = count;
    return enqueue_node(w, stream, std::move(node));
  });
}
Result set_bytes(Address to, unsigned char value, size_t n, api::Stream stream) {
  return set("cuMemsetD8Async", to, value, 1, n, stream);
}
Result set_halves(Address to, unsigned short value, size_t n, api::Stream stream) {
  return set("cuMemsetD16Async", to, value, 2, n, stream);
}
Result set_words(Address to, unsigned value, size_t n, api::Stream stream) {
  return set("cuMemsetD32Async", to, value, 4, n, stream);
}

// ---- streams and events

Result make_stream(api::Stream* stream, unsigned, int) {
  return call("cuStreamCreateWithPriority", [&](World& w) {
    *stream = reinterpret_cast<api::Stream>(w.streams.make(current));
    return api::success;
  });
}
Result destroy_stream(api::Stream stream) {
  return call("cuStreamDestroy", [&](World& w) -> Result {
    StreamState* state = state_of(w, stream);
    if (!state || !stream) return invalid_handle;
    w.streams.destroy(state);
    return api::success;
  });
}
Result synchronize_stream(api::Stream stream) {
  return call("cuStreamSynchronize", [&](World& w) { return finish(w, state_of(w, stream)); });
}
Result synchronize_context(api::Context) {
  return call("cuCtxSynchronize", [](World& w) -> Result {
    if (w.streams.break_captures()) return api::error_capture_unsupported;
    Result failed = api::success;
    bool ran = true;
    while (ran && failed == api::success) {
      double before = w.streams.clock();
      failed = w.streams.step();
      ran = w.streams.clock() != before;
    }
    return failed;
  });
}
Result make_event(api::Event* event, unsigned) {
  return call("cuEventCreate", [&](World& w) {
    *event = reinterpret_cast<api::Event>(new EventState);
    ++w.events;
    return api::success;
  });
}
// Work that waits for it may still be queued: the state stays.
Result destroy_event(api::Event) {
  return call("cuEventDestroy", [](World& w) {
    --w.events;
    return api::success;
  });
}
Result record(api::Event event, api::Stream stream) {
  return call("cuEventRecord", [&](World& w) -> Result {
    if (Result refused = refused_by_capture(state_of(w, stream))) return refused;
    EventState* state = state_of(event);
    uint64_t number = ++state->asked;
    state->open.insert(number);
    return enqueue(w, stream, {{}, [&w, state, number] {
                                 state->open.erase(number);
                                 state->reached = std::max(state->reached, number);
                                 state->reached_at = w.streams.clock();
                                 return api::success;
                               }});
  });
}
Result wait_for_event(api::Stream stream, api::Event event, unsigned) {
  return call("cuStreamWaitEvent", [&](World& w) -> Result {
    if (refused_by_capture(state_of(w, stream))) return api::error_capture_isolation;
    EventState* state = state_of(event);
    uint64_t number = state->asked;
    return enqueue(w, stream, {[state, number] { return !state->open.contains(number); }, {}});
  });
}
Result query_event(api::Event event) {
  return call("cuEventQuery", [&](World& w) -> Result {
    EventState* state = state_of(event);
    if (Result failed = w.streams.step()) return failed;
    return state->reached >= state->asked ? api::success : api::error_not_ready;
  });
}
Result synchronize_event(api::Event event) {
  return call("cuEventSynchronize", [&](World& w) {
    EventState* state = state_of(event);
    return w.streams.run_until([state] { return state->reached >= state->asked; });
  });
}
Result elapsed(float* milliseconds, api::Event begin, api::Event end) {
  return call("cuEventElapsedTime", [&](World&) -> Result {
    EventState *a = state_of(begin), *b = state_of(end);
    if (a->reached < a->asked || b->reached < b->asked) return api::error_not_ready;
    *milliseconds = static_cast<float>(b->reached_at - a->reached_at);
    return api::success;
  });
}

}  // namespace

void fill_driver(api::Driver& d) {
  d.cuInit = init;
  d.cuDriverGetVersion = driver_version;
  d.cuGetErrorName = error_name;
  d.cuGetErrorString = error_string;
  d.cuDeviceGetCount = device_count;
  d.cuDeviceGet = device_get;
  d.cuDeviceGetName = device_name;
  d.cuDeviceTotalMem = total_memory;
  d.cuDeviceGetAttribute = attribute;
  d.cuDevicePrimaryCtxRetain = retain_context;
  d.cuCtxSetCurrent = set_context;
  d.cuCtxSynchronize = synchronize_context;
  d.cuMemGetInfo = memory_info;
  d.cuMemPoolCreate = make_pool;
  d.cuMemPoolDestroy = destroy_pool;
  d.cuMemPoolSetAttribute = set_pool;
  d.cuMemPoolGetAttribute = read_pool;
  d.cuMemPoolTrimTo = trim_pool;
  d.cuMemAllocFromPoolAsync = allocate;
  d.cuMemFreeAsync = release;
  d.cuMemHostAlloc = pin;
  d.cuMemFreeHost = unpin;
  d.cuMemcpyAsync = copy;
  d.cuMemsetD8Async = set_bytes;
  d.cuMemsetD16Async = set_halves;
  d.cuMemsetD32Async = set_words;
  d.cuStreamCreateWithPriority = make_stream;
  d.cuStreamDestroy = destroy_stream;
  d.cuStreamSynchronize = synchronize_stream;
  d.cuStreamWaitEvent = wait_for_event;
  d.cuEventCreate = make_event;
  d.cuEventDestroy = destroy_event;
  d.cuEventRecord = record;
  d.cuEventQuery = query_event;
  d.cuEventSynchronize = synchronize_event;
  d.cuEventElapsedTime = elapsed;
}

}  // namespace fake_cuda
