// Devices of plugins ([[device]]): the providers behind the host's device layer. A plugin is loaded
// when one of its devices is first asked for.
#include "backend/abi/status.h"
#include "backend/catalog.h"
#include "backend/life/load.h"
#include "backend/life/shutdown.h"
#include "core/device/provider.h"
#include "core/error.h"

#include <tenon/device.h>

#include <atomic>
#include <map>
#include <mutex>

namespace tenon {

namespace {

/// The table of a plugin as the host's interface. After shutdown what gives back does nothing: the
/// process ends, and the driver takes all that it has.
class PluginDevice : public DeviceProvider {
 public:
  PluginDevice(const LoadedPlugin& plugin, const tn_device_provider& table)
      : net_(plugin.net), table_(table), type_(view_of(table.type_name)) {}

  int32_t count() override {
    int32_t n = 0;
    call("count", [&] { return table_.count(table_.self, &n); });
    return n;
  }
  std::string describe() override {
    TextSink text;
    if (TN_HAS(&table_, describe))
      call("describe", [&] { return table_.describe(table_.self, text.get()); });
    return text.take();
  }
  DeviceProperties properties(int32_t index) override {
    tn_device_props p{};
    p.struct_size = sizeof p;
    call(
        "props", [&] { return table_.props(table_.self, index, &p); }, table_.props);
    return {std::string(view_of(p.name)),
            std::string(view_of(p.arch)),
            static_cast<int>(p.compute_units),
            p.capability_major,
            p.capability_minor,
            static_cast<int64_t>(p.total_bytes),
            static_cast<int64_t>(p.free_bytes)};
  }
  void synchronize(int32_t index) override {
    call(
        "device_sync", [&] { return table_.device_sync(table_.self, index); }, table_.device_sync);
  }
  DeviceMemoryStats memory(int32_t index) override {
    tn_device_memory m{};
    m.struct_size = sizeof m;
    call(
        "memory_stats", [&] { return table_.memory_stats(table_.self, index, &m); },
        table_.memory_stats);
    return {static_cast<int64_t>(m.allocated_bytes), static_cast<int64_t>(m.reserved_bytes),
            static_cast<int64_t>(m.peak_bytes), static_cast<int64_t>(m.allocations)};
  }
  void trim(int32_t index) override {
    if (table_.trim) call("trim", [&] { return table_.trim(table_.self, index); });
  }

  void* allocate(int32_t index, uint64_t bytes, tn_stream* stream) override {
    void* out = nullptr;
    call(
        "alloc", [&] { return table_.alloc(table_.self, index, bytes, stream, &out); },
        table_.alloc);
    return out;
  }
  void release(int32_t index, void* memory, uint64_t bytes, tn_stream* stream) noexcept override {
    give_back("free", [&] { table_.free(table_.self, index, memory, bytes, stream); });
  }
  void* allocate_pinned(uint64_t bytes) override {
    void* out = nullptr;
    call(
        "host_alloc", [&] { return table_.host_alloc(table_.self, bytes, &out); },
        table_.host_alloc);
    return out;
  }
  void release_pinned(void* memory, uint64_t bytes) noexcept override {
    give_back("host_free", [&] { table_.host_free(table_.self, memory, bytes); });
  }
  void copy(int32_t index, void* to, const void* from, uint64_t bytes, CopyDirection direction,
            tn_stream* stream) override {
    call(
        "copy",
        [&] {
          return table_.copy(table_.self, index, to, from, bytes, static_cast<int32_t>(direction),
                             stream);
        },
        table_.copy);
  }

  void fill(int32_t index, void* to, uint8_t byte, uint64_t bytes, tn_stream* stream) override {
    call(
        "fill", [&] { return table_.fill(table_.self, index, to, byte, bytes, stream); },
        table_.fill);
  }

  tn_stream* new_stream(int32_t index, int32_t priority) override {
    tn_stream* out = nullptr;
    call(
        "stream_new", [&] { return table_.stream_new(table_.self, index, priority, &out); },
        table_.stream_new);
    return out;
  }
  tn_stream* wrap_stream(int32_t index, void* native) override {
    tn_stream* out = nullptr;
    call(
        "stream_wrap", [&] { return table_.stream_wrap(table_.self, index, native, &out); },
        table_.stream_wrap);
    return out;
  }
  void free_stream(tn_stream* stream) noexcept override {
    give_back("stream_free", [&] { table_.stream_free(table_.self, stream); });
  }
  void synchronize(tn_stream* stream) override {
    call(
        "stream_sync", [&] { return table_.stream_sync(table_.self, stream); }, table_.stream_sync);
  }
  void* native(tn_stream* stream) override {
    return table_.stream_native ? table_.stream_native(table_.self, stream) : nullptr;
  }

  tn_event* new_event(int32_t index, bool timing) override {
    tn_event* out = nullptr;
    call(
        "event_new", [&] { return table_.event_new(table_.self, index, timing, &out); },
        table_.event_new);
    return out;
  }
  void free_event(tn_event* event) noexcept override {
    give_back("event_free", [&] { table_.event_free(table_.self, event); });
  }
  void record(tn_event* event, tn_stream* stream) override {
    call(
        "event_record", [&] { return table_.event_record(table_.self, event, stream); },
        table_.event_record);
  }
  void wait(tn_event* event, tn_stream* stream) override {
    call(
        "event_wait", [&] { return table_.event_wait(table_.self, event, stream); },
        table_.event_wait);
  }
  bool is_done(tn_event* event) override {
    int32_t done = 0;
    call(
        "event_done",
        [&]() -> tn_status* {
          done = table_.event_done(table_.self, event);
          return nullptr;
        },
        table_.event_done);
    return done != 0;
  }
  double elapsed_ms(tn_event* begin, tn_event* end) override {
    double ms = 0;
    call(
        "event_elapsed_ms", [&] { return table_.event_elapsed_ms(table_.self, begin, end, &ms); },
        table_.event_elapsed_ms);
    return ms;
  }

 private:
  // One function of the table; `slot` is it, where it may be missing.
  template <class F, class Slot = bool>
  void call(const char* function, F&& f, Slot slot = true) {
    require(slot, ErrorCode::unsupported, "the plugin {} does not offer {} of device {}",
            net_.name(), function, type_);
    tn_status* status = call_plugin(net_, function, f);
    if (!status) return;
    throw_status(status, ErrorCode::backend_call_failed,
                 message("{} of device {}", function, type_));
  }
  template <class F>
  void give_back(const char* function, F&& f) noexcept {
    call_plugin_quietly(net_, function, f);
  }

  PluginNet& net_;
  const tn_device_provider& table_;
  std::string type_;
};

FoundPluginPtr plugin_of(const std::string& type) {
  FoundPluginPtr unusable;
  for (const FoundPluginPtr& p : plugin_catalog().list()) {
    if (p->shadowed) continue;
    for (const DeviceManifest& d : p->manifest.devices) {
      if (d.type != type) continue;
      if (p->usable) return p;
      if (!unusable) unusable = p;
    }
  }
  return unusable;
}

std::unique_ptr<DeviceProvider> load_provider(const std::string& type) {
  FoundPluginPtr found = plugin_of(type);
  require(found != nullptr, ErrorCode::unsupported,
          "there is no device {}: no plugin offers it; `tenon plugin list` shows what is found",
          type);
  const LoadedPlugin& plugin = load_plugin(plugin_catalog(), found);
  for (const tn_device_provider& table : plugin.devices)
    if (view_of(table.type_name) == type) return std::make_unique<PluginDevice>(plugin, table);
  fail_internal("a plugin was loaded that has no table for a device of its manifest");
}

// Kept for good: tensors and streams point to it.
DeviceProvider& find_provider(DeviceType type) {
  static std::atomic<DeviceProvider*> cuda{nullptr};  // asked for by each allocation
  bool is_cuda = type == DeviceType::cuda;
  if (DeviceProvider* found = cuda.load(std::memory_order_acquire); found && is_cuda) return *found;
  static auto* const lock = new std::mutex;
  static auto* const known = new std::map<DeviceType, std::unique_ptr<DeviceProvider>>;
  std::lock_guard held(*lock);
  auto& provider = (*known)[type];
  if (!provider) provider = load_provider(type_name(type));
  if (is_cuda) cuda.store(provider.get(), std::memory_order_release);
  return *provider;
}

const struct FillSlot {
  FillSlot() { device_provider_slot = &find_provider; }
} fill_slot;

}  // namespace

}  // namespace tenon
