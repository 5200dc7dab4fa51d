// The driver's functions over the double's memory and streams.
#include "fake_cuda.h"
#include "memory.h"
#include "streams.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace fake_cuda {

namespace api = tenon::cuda::api;
using api::Address;
using api::Result;

namespace {

int64_t setting(const char* name, int64_t otherwise) {
  const char* text = std::getenv((std::string("TENON_FAKE_CUDA_") + name).c_str());
  return text ? std::atoll(text) : otherwise;
}

/// Which call fails, and with what.
struct Failure {
  std::string function;  // "*": any
  uint64_t left = 0;     // calls until then
  Result result = api::success;
  const char* happened = nullptr;
};

Failure failure_of_environment() {
  const char* text = std::getenv("TENON_FAKE_CUDA_FAIL");
  char function[64] = {};
  unsigned long nth = 0;
  int result = 0;
  if (!text || std::sscanf(text, "%63[^:]:%lu:%d", function, &nth, &result) != 3) return {};
  return {function, nth, result, nullptr};
}

struct World {
  std::mutex lock;
  int devices = static_cast<int>(setting("DEVICES", 1));
  int version = static_cast<int>(setting("VERSION", api::driver_version));
  int capability = static_cast<int>(setting("CAPABILITY", 90));
  Memory memory{std::max(devices, 1), static_cast<size_t>(setting("MEMORY", int64_t{1} << 30))};
  Streams streams;
  std::map<void*, size_t> pinned;
  uint64_t calls = 0, events = 0;
  Failure failure = failure_of_environment();
  Result lost = api::success;  // the error that every call gives from then on
  bool started = false;

  World() { streams.seed(static_cast<uint64_t>(setting("SEED", 1))); }
};

World& world() {
  static auto* const instance = new World;
  return *instance;
}

// The device that the thread's context is of; contexts are device numbers from 1 on.
thread_local int current = 0;

bool is_fatal(Result r) { return r == 214 || r == 220 || (r >= 700 && r <= 719); }

// What a call gives instead of its own result.
Result interrupted(World& w, const char* function) {
  ++w.calls;
  Failure& f = w.failure;
  if (f.left > 0 && (f.function == "*" || f.function == function) && --f.left == 0) {
    f.happened = function;
    if (is_fatal(f.result)) w.lost = f.result;
    return f.result;
  }
  return w.lost;
}

/// Runs a function's body under the lock, unless it is to fail.
template <class F>
Result call(const char* function, F&& body) {
  World& w = world();
  std::lock_guard lock(w.lock);
  if (Result instead = interrupted(w, function)) return instead;
  if (!w.started) return api::error_not_initialized;
  Result result = body(w);
  if (is_fatal(result)) w.lost = result;
  return result;
}

StreamState* state_of(World& w, api::Stream stream) {
  if (!stream) return w.streams.standard(current);
  auto* state = reinterpret_cast<StreamState*>(stream);
  return w.streams.knows(state) ? state : nullptr;
}
EventState* state_of(api::Event event) { return reinterpret_cast<EventState*>(event); }

constexpr Result invalid_handle = 400, illegal_address = api::error_illegal_address;

Result enqueue(World& w, api::Stream stream, Work work) {
  StreamState* state = state_of(w, stream);
  if (!state) return invalid_handle;
  state->queue.push_back(std::move(work));
  return api::success;
}

Result finish(World& w, StreamState* stream) {
  if (!stream) return invalid_handle;
  return w.streams.run_until([stream] { return stream->queue.empty(); });
}

// ---- start and devices

Result init(unsigned) {
  World& w = world();
  std::lock_guard lock(w.lock);
  if (Result instead = interrupted(w, "cuInit")) return instead;
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
Result attribute(int* value, int32_t which, api::Ordinal) {
  return call("cuDeviceGetAttribute", [&](World& w) {
    *value = which == api::attribute_multiprocessors    ? 4
             : which == api::attribute_capability_major ? w.capability / 10
             : which == api::attribute_capability_minor ? w.capability % 10
                                                        : 1;
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
Result allocate(Address* address, size_t bytes, api::Pool pool, api::Stream) {
  return call("cuMemAllocFromPoolAsync", [&](World& w) -> Result {
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

bool is_pinned(World& w, Address address, size_t bytes) {
  auto after = w.pinned.upper_bound(reinterpret_cast<void*>(address));
  if (after == w.pinned.begin()) return false;
  auto [start, size] = *std::prev(after);
  size_t offset = address - reinterpret_cast<Address>(start);
  return offset <= size && bytes <= size - offset;
}

/// Where the double may touch one side of a copy when it runs.
void* side(World& w, Address address, size_t bytes) {
  return w.memory.is_device(address) ? w.memory.work(address, bytes)
                                     : reinterpret_cast<void*>(address);
}

Work copy_work(World& w, Address to, Address from, size_t bytes) {
  return {{}, [&w, to, from, bytes]() -> Result {
            void *target = side(w, to, bytes), *source = side(w, from, bytes);
            if (!target || !source) return illegal_address;
            std::memmove(target, source, bytes);
            return api::success;
          }};
}

// Pageable memory is read when the call is made, as the driver's own staging does, and written
// before it returns.
Result copy(Address to, Address from, size_t bytes, api::Stream stream) {
  return call("cuMemcpyAsync", [&](World& w) -> Result {
    bool from_host = !w.memory.is_device(from), to_host = !w.memory.is_device(to);
    if (from_host && !is_pinned(w, from, bytes)) {
      auto staged = std::make_shared<std::vector<char>>(bytes);
      std::memcpy(staged->data(), reinterpret_cast<void*>(from), bytes);
      return enqueue(w, stream, {{}, [&w, to, staged]() -> Result {
                                   void* target = side(w, to, staged->size());
                                   if (!target) return illegal_address;
                                   std::memcpy(target, staged->data(), staged->size());
                                   return api::success;
                                 }});
    }
    if (Result failed = enqueue(w, stream, copy_work(w, to, from, bytes))) return failed;
    return to_host && !is_pinned(w, to, bytes) ? finish(w, state_of(w, stream)) : api::success;
  });
}
Result set_bytes(Address to, unsigned char byte, size_t bytes, api::Stream stream) {
  return call("cuMemsetD8Async", [&](World& w) {
    return enqueue(w, stream, {{}, [&w, to, byte, bytes]() -> Result {
                                 void* target = w.memory.work(to, bytes);
                                 if (!target) return illegal_address;
                                 std::memset(target, byte, bytes);
                                 return api::success;
                               }});
  });
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
Result synchronize_context() {
  return call("cuCtxSynchronize", [](World& w) {
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
  return call("cuEventRecord", [&](World& w) {
    EventState* state = state_of(event);
    uint64_t number = ++state->asked;
    return enqueue(w, stream, {{}, [&w, state, number] {
                                 state->reached = std::max(state->reached, number);
                                 state->reached_at = w.streams.clock();
                                 return api::success;
                               }});
  });
}
Result wait_for_event(api::Stream stream, api::Event event, unsigned) {
  return call("cuStreamWaitEvent", [&](World& w) {
    EventState* state = state_of(event);
    uint64_t number = state->asked;
    return enqueue(w, stream, {[state, number] { return state->reached >= number; }, {}});
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

const api::Driver functions = {
    .cuInit = init,
    .cuDriverGetVersion = driver_version,
    .cuGetErrorName = error_name,
    .cuGetErrorString = error_string,
    .cuDeviceGetCount = device_count,
    .cuDeviceGet = device_get,
    .cuDeviceGetName = device_name,
    .cuDeviceTotalMem = total_memory,
    .cuDeviceGetAttribute = attribute,
    .cuDevicePrimaryCtxRetain = retain_context,
    .cuCtxSetCurrent = set_context,
    .cuCtxSynchronize = synchronize_context,
    .cuMemGetInfo = memory_info,
    .cuMemPoolCreate = make_pool,
    .cuMemPoolDestroy = destroy_pool,
    .cuMemPoolSetAttribute = set_pool,
    .cuMemPoolGetAttribute = read_pool,
    .cuMemPoolTrimTo = trim_pool,
    .cuMemAllocFromPoolAsync = allocate,
    .cuMemFreeAsync = release,
    .cuMemHostAlloc = pin,
    .cuMemFreeHost = unpin,
    .cuMemcpyAsync = copy,
    .cuMemsetD8Async = set_bytes,
    .cuStreamCreateWithPriority = make_stream,
    .cuStreamDestroy = destroy_stream,
    .cuStreamSynchronize = synchronize_stream,
    .cuStreamWaitEvent = wait_for_event,
    .cuEventCreate = make_event,
    .cuEventDestroy = destroy_event,
    .cuEventRecord = record,
    .cuEventQuery = query_event,
    .cuEventSynchronize = synchronize_event,
    .cuEventElapsedTime = elapsed,
};

void* find(std::string_view name) {
#define FAKE_CUDA_FIND(function, parameters) \
  if (name == #function) return reinterpret_cast<void*>(functions.function);
  TENON_CUDA_DRIVER_FUNCTIONS(FAKE_CUDA_FIND)
#undef FAKE_CUDA_FIND
  return nullptr;
}

}  // namespace

}  // namespace fake_cuda

extern "C" {

__attribute__((visibility("default"))) int32_t cuGetProcAddress_v2(const char* symbol, void** out,
                                                                   int version, uint64_t,
                                                                   int32_t* found) {
  *out = fake_cuda::find(symbol);
  if (found) *found = *out ? 0 : 1;
  return *out && version == tenon::cuda::api::driver_version ? 0 : 500;
}

__attribute__((visibility("default"))) FakeCudaCounts fake_cuda_counts() {
  fake_cuda::World& w = fake_cuda::world();
  std::lock_guard lock(w.lock);
  return {w.calls,           w.memory.live(), w.memory.live_bytes(),
          w.streams.alive(), w.events,        w.pinned.size()};
}

__attribute__((visibility("default"))) void fake_cuda_fail(const char* function, uint64_t nth,
                                                           int32_t result) {
  fake_cuda::World& w = fake_cuda::world();
  std::lock_guard lock(w.lock);
  w.failure = {function, nth, result, nullptr};
}

__attribute__((visibility("default"))) const char* fake_cuda_failed() {
  fake_cuda::World& w = fake_cuda::world();
  std::lock_guard lock(w.lock);
  return w.failure.happened;
}

__attribute__((visibility("default"))) void fake_cuda_seed(uint64_t seed) {
  fake_cuda::World& w = fake_cuda::world();
  std::lock_guard lock(w.lock);
  w.streams.seed(seed);
}

__attribute__((visibility("default"))) void fake_cuda_revive() {
  fake_cuda::World& w = fake_cuda::world();
  std::lock_guard lock(w.lock);
  w.lost = 0;
}
}
