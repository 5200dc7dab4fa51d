// Devices: questions, streams and events over the providers.
#include "core/device/provider.h"

#include "core/error.h"

#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace tenon {

using detail::EventState;
using detail::StreamState;
using StreamPtr = std::shared_ptr<StreamState>;

DeviceProvider& (*device_provider_slot)(DeviceType) = nullptr;

DeviceProvider& provider_of(Device device) {
  require(device.type != DeviceType::cpu && device.type != DeviceType::meta,
          "{} has no streams, events or memory of its own", device);
  ensure(device_provider_slot, "devices were asked for before the host was set up");
  return device_provider_slot(device.type);
}

std::string type_name(DeviceType type) {
  std::string text = to_text(Device(type));
  return text.substr(0, text.find(':'));
}

namespace {

using ByDevice = std::vector<std::pair<Device, StreamPtr>>;

StreamPtr* find(ByDevice& streams, Device device) {
  for (auto& [d, stream] : streams)
    if (d == device) return &stream;
  return nullptr;
}

// What the thread has chosen; devices that it has chosen nothing for have the shared one.
ByDevice& chosen() {
  static thread_local ByDevice streams;
  return streams;
}

StreamPtr make_stream(Device device, int priority) {
  DeviceProvider& provider = provider_of(device);
  return std::make_shared<StreamState>(&provider, device,
                                       provider.new_stream(device.index, priority));
}

// The stream that threads begin with; kept for good, since tensors give their memory back on it.
StreamPtr shared_stream(Device device) {
  static auto* const lock = new std::mutex;
  static auto* const streams = new ByDevice;
  std::lock_guard held(*lock);
  if (StreamPtr* known = find(*streams, device)) return *known;
  return streams->emplace_back(device, make_stream(device, 0)).second;
}

StreamPtr exchange_chosen(const StreamPtr& stream) {
  ByDevice& mine = chosen();
  if (StreamPtr* known = find(mine, stream->device)) return std::exchange(*known, stream);
  StreamPtr before = shared_stream(stream->device);
  mine.emplace_back(stream->device, stream);
  return before;
}

}  // namespace

int device_count(DeviceType type) {
  if (type == DeviceType::cpu) return 1;
  try {
    return provider_of(Device(type)).count();
  } catch (const Error&) {
    return 0;
  }
}

std::string why_no_device(DeviceType type) {
  if (type == DeviceType::cpu) return {};
  try {
    return provider_of(Device(type)).count() > 0 ? "" : "no device";
  } catch (const Error& e) {
    return e.what();
  }
}

DeviceProperties device_properties(Device device) {
  return provider_of(device).properties(device.index);
}
void synchronize(Device device) {
  if (device.type != DeviceType::cpu) provider_of(device).synchronize(device.index);
}
DeviceMemoryStats memory_stats(Device device) { return provider_of(device).memory(device.index); }
void empty_cache(Device device) { provider_of(device).trim(device.index); }

tn_stream* current_stream(Device device) {
  if (device.type == DeviceType::cpu) return nullptr;
  return Stream::current(device).state()->handle;
}

Stream::Stream(Device device, int priority) : state_(make_stream(device, priority)) {}

Stream Stream::current(Device device) {
  StreamPtr* mine = find(chosen(), device);
  return Stream(mine ? *mine : shared_stream(device));
}

Stream Stream::wrap(Device device, void* native) {
  DeviceProvider& provider = provider_of(device);
  return Stream(
      std::make_shared<StreamState>(&provider, device, provider.wrap_stream(device.index, native)));
}

Device Stream::device() const { return state_->device; }
void* Stream::native() const { return state_->provider->native(state_->handle); }
void Stream::synchronize() const { state_->provider->synchronize(state_->handle); }
void Stream::wait(const Event& event) const {
  require(event.state()->provider == state_->provider,
          "a stream on {} cannot wait for an event of {}", state_->device, event.state()->device);
  state_->provider->wait(event.state()->handle, state_->handle);
}

StreamGuard::StreamGuard(const Stream& stream) : before_(exchange_chosen(stream.state())) {}
StreamGuard::~StreamGuard() { exchange_chosen(before_.state()); }

Event::Event(Device device, bool timing) {
  DeviceProvider& provider = provider_of(device);
  state_ =
      std::make_shared<EventState>(&provider, device, provider.new_event(device.index, timing));
}
void Event::record(const Stream& stream) const {
  require(stream.device() == state_->device, "an event of {} cannot mark work on {}",
          state_->device, stream.device());
  state_->provider->record(state_->handle, stream.state()->handle);
}
bool Event::is_done() const { return state_->provider->is_done(state_->handle); }
void Event::synchronize() const {
  while (!is_done()) std::this_thread::yield();
}
double Event::elapsed_ms(const Event& later) const {
  return state_->provider->elapsed_ms(state_->handle, later.state()->handle);
}

}  // namespace tenon
