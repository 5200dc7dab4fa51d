// Devices: questions, streams and events over the providers.
#include "core/device/provider.h"
#include "core/device/stream_choice.h"

#include "core/error.h"

#include <tenon/thread_object.hpp>

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

// Streams by device; there are few devices.
template <class S>
S* find(std::vector<std::pair<Device, S>>& streams, Device device) {
  for (auto& [d, stream] : streams)
    if (d == device) return &stream;
  return nullptr;
}

StreamPtr make_stream(Device device, int priority) {
  DeviceProvider& provider = provider_of(device);
  return std::make_shared<StreamState>(&provider, device,
                                       provider.new_stream(device.index, priority));
}

// The stream that threads begin with; kept for good, since tensors give their memory back on it.
StreamPtr shared_stream(Device device) {
  static auto* const lock = new std::mutex;
  static auto* const streams = new std::vector<std::pair<Device, StreamPtr>>;
  std::lock_guard held(*lock);
  if (StreamPtr* known = find(*streams, device)) return *known;
  return streams->emplace_back(device, make_stream(device, 0)).second;
}

/// What a thread works with: its choice, and of each device that it has used the stream that this
/// means, found without a lock.
struct ThreadStreams {
  StreamChoicePtr choice;
  std::vector<std::pair<Device, StreamPtr>> current;
};
ThreadStreams& thread_streams() { return ThreadObject<ThreadStreams>::get(); }

std::atomic<bool> any_chosen{false};

StreamChoicePtr exchange_choice(StreamChoicePtr choice) {
  ThreadStreams& mine = thread_streams();
  mine.current.clear();
  return std::exchange(mine.choice, std::move(choice));
}

// The thread's choice with another stream of its device.
StreamChoicePtr choice_with(const Stream& stream) {
  auto made = std::make_shared<StreamChoice>();
  if (const StreamChoicePtr& now = thread_streams().choice) *made = *now;
  std::erase_if(made->streams, [&](const auto& entry) { return entry.first == stream.device(); });
  if (stream.state() != shared_stream(stream.device()))
    made->streams.emplace_back(stream.device(), stream);
  return made->streams.empty() ? nullptr : made;
}

}  // namespace

StreamChoicePtr chosen_streams() { return thread_streams().choice; }
bool are_streams_chosen() { return any_chosen.load(std::memory_order_relaxed); }

Stream stream_under(const StreamChoicePtr& choice, Device device) {
  if (choice)
    for (const auto& [d, stream] : choice->streams)
      if (d == device) return stream;
  return Stream(shared_stream(device));
}

StreamChoiceScope::StreamChoiceScope(StreamChoicePtr choice)
    : acts_(true), before_(exchange_choice(std::move(choice))) {}
StreamChoiceScope::~StreamChoiceScope() {
  if (acts_) exchange_choice(std::move(before_));
}

void order_streams(const Stream& earlier, const Stream& later) {
  if (earlier == later) return;
  Event reached(earlier.device());
  reached.record(earlier);
  later.wait(reached);
}

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

const StreamPtr& current_stream_state(Device device) {
  ThreadStreams& mine = thread_streams();
  if (StreamPtr* known = find(mine.current, device)) return *known;
  return mine.current.emplace_back(device, stream_under(mine.choice, device).state()).second;
}

tn_stream* current_stream(Device device) {
  return device.type == DeviceType::cpu ? nullptr : current_stream_state(device)->handle;
}

Stream::Stream(Device device, int priority) : state_(make_stream(device, priority)) {}

Stream Stream::current(Device device) { return Stream(current_stream_state(device)); }

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

StreamGuard::StreamGuard(const Stream& stream) : before_(Stream::current(stream.device())) {
  any_chosen.store(true, std::memory_order_relaxed);
  exchange_choice(choice_with(stream));
}
StreamGuard::~StreamGuard() { exchange_choice(choice_with(before_)); }

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
