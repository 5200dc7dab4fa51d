// What the host wants of a type of device; a plugin stands behind it.
#pragma once

#include <tenon/devices.h>

struct tn_stream;
struct tn_event;

namespace tenon {

enum class CopyDirection : int32_t { to_device, to_host, on_device };

/// Memory, streams and copies of one type of device, after tn_device_provider. Everything throws
/// UserError or BackendError with the device and the reason, except what gives back, which only
/// logs. Threads: any. Lives as long as the process.
class DeviceProvider {
 public:
  virtual ~DeviceProvider() = default;

  virtual int32_t count() = 0;
  /// What stands behind the devices, as a JSON object; empty where the plugin does not say it.
  virtual std::string describe() = 0;
  virtual DeviceProperties properties(int32_t index) = 0;
  virtual void synchronize(int32_t index) = 0;
  virtual DeviceMemoryStats memory(int32_t index) = 0;
  virtual void trim(int32_t index) = 0;

  virtual void* allocate(int32_t index, uint64_t bytes, tn_stream* stream) = 0;
  virtual void release(int32_t index, void* memory, uint64_t bytes, tn_stream* stream) noexcept = 0;
  virtual void* allocate_pinned(uint64_t bytes) = 0;
  virtual void release_pinned(void* memory, uint64_t bytes) noexcept = 0;
  /// Enqueued; memory of the host that is not pinned is done with when it returns.
  virtual void copy(int32_t index, void* to, const void* from, uint64_t bytes,
                    CopyDirection direction, tn_stream* stream) = 0;
  /// Enqueued.
  virtual void fill(int32_t index, void* to, uint8_t byte, uint64_t bytes, tn_stream* stream) = 0;

  virtual tn_stream* new_stream(int32_t index, int32_t priority) = 0;
  virtual tn_stream* wrap_stream(int32_t index, void* native) = 0;
  virtual void free_stream(tn_stream* stream) noexcept = 0;
  virtual void synchronize(tn_stream* stream) = 0;
  virtual void* native(tn_stream* stream) = 0;

  virtual tn_event* new_event(int32_t index, bool timing) = 0;
  virtual void free_event(tn_event* event) noexcept = 0;
  virtual void record(tn_event* event, tn_stream* stream) = 0;
  virtual void wait(tn_event* event, tn_stream* stream) = 0;
  virtual bool is_done(tn_event* event) = 0;
  virtual double elapsed_ms(tn_event* begin, tn_event* end) = 0;
};

/// The provider of a type, loaded at the first question. Throws UserError where no plugin offers
/// the type or its plugin cannot be used. Filled in by backend/devices.cpp.
extern DeviceProvider& (*device_provider_slot)(DeviceType type);
DeviceProvider& provider_of(Device device);

namespace detail {

struct StreamState {
  DeviceProvider* provider;
  Device device;
  tn_stream* handle;
  ~StreamState() { provider->free_stream(handle); }
};
struct EventState {
  DeviceProvider* provider;
  Device device;
  tn_event* handle;
  ~EventState() { provider->free_event(handle); }
};

}  // namespace detail

/// "cuda": a type of device as manifests name it.
std::string type_name(DeviceType type);

/// The thread's current stream, for calls into a plugin; null on the CPU.
tn_stream* current_stream(Device device);
/// The same for who keeps it; on devices only.
const std::shared_ptr<detail::StreamState>& current_stream_state(Device device);

}  // namespace tenon
