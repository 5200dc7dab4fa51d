// Device providers: what every device must do before anything is compiled for it.
#include "backend/abi/bridge.h"
#include "backend/abi/status.h"
#include "core/error.h"
#include "debug/plugin_kit/compiling.h"

#include <tenon/device.h>
#include <tenon/ops/create.h>

#include <algorithm>
#include <numeric>

namespace tenon::kit {

namespace {

void succeed(const char* what, tn_status* status) {
  if (status) fail_check("{} failed: {}", what, text_and_free(status));
}

const tn_device_provider& provider_of(Bench& bench, const std::string& type) {
  for (const tn_device_provider& p : bench.load().devices)
    if (view_of(p.type_name) == type) return p;
  fail_check("P12 the manifest declares device {}, the table lacks it", type);
}

int32_t count_of(const tn_device_provider& p) {
  int32_t n = -1;
  tn_status* status = p.count(p.self, &n);
  if (status && status->code == TN_UNAVAILABLE) skip_check("P19 {}", text_and_free(status));
  succeed("count", status);
  expect(n >= 0, "count gave {}", n);
  if (n == 0) skip_check("P19 there is no device or no driver");
  return n;
}

void check_count(Bench& bench, const std::string& type) { count_of(provider_of(bench, type)); }

void check_properties(Bench& bench, const std::string& type) {
  const tn_device_provider& p = provider_of(bench, type);
  for (int32_t dev = 0, n = count_of(p); dev < n; ++dev) {
    tn_device_props props{};
    props.struct_size = sizeof props;
    succeed("props", p.props(p.self, dev, &props));
    expect(props.total_bytes > 0 && props.free_bytes <= props.total_bytes,
           "device {} has {} bytes, {} of them free", dev, props.total_bytes, props.free_bytes);
    expect(props.name.size > 0, "device {} has no name", dev);
  }
}

// To the device, to another place there, and back.
void check_copies(Bench& bench, const std::string& type) {
  const tn_device_provider& p = provider_of(bench, type);
  count_of(p);
  constexpr size_t n = 4096;
  std::vector<uint8_t> there(n), back(n);
  std::iota(there.begin(), there.end(), uint8_t{0});
  tn_stream* stream = nullptr;
  succeed("stream_new", p.stream_new(p.self, 0, 0, &stream));
  void *a = nullptr, *b = nullptr;
  succeed("alloc", p.alloc(p.self, 0, n, stream, &a));
  succeed("alloc", p.alloc(p.self, 0, n, stream, &b));
  succeed("copy", p.copy(p.self, 0, a, there.data(), n, TN_COPY_H2D, stream));
  succeed("copy", p.copy(p.self, 0, b, a, n, TN_COPY_D2D, stream));
  succeed("copy", p.copy(p.self, 0, back.data(), b, n, TN_COPY_D2H, stream));
  succeed("stream_sync", p.stream_sync(p.self, stream));
  expect(there == back, "bytes copied to the device and back are not the same");
  succeed("fill", p.fill(p.self, 0, a, 0x5A, n, stream));
  succeed("copy", p.copy(p.self, 0, back.data(), a, n, TN_COPY_D2H, stream));
  succeed("stream_sync", p.stream_sync(p.self, stream));
  expect(std::all_of(back.begin(), back.end(), [](uint8_t v) { return v == 0x5A; }),
         "fill did not fill all bytes");
  p.free(p.self, 0, a, n, stream);
  p.free(p.self, 0, b, n, stream);
  succeed("device_sync", p.device_sync(p.self, 0));
  p.stream_free(p.self, stream);
}

void check_events(Bench& bench, const std::string& type) {
  const tn_device_provider& p = provider_of(bench, type);
  count_of(p);
  tn_stream* stream = nullptr;
  tn_event *begin = nullptr, *end = nullptr;
  succeed("stream_new", p.stream_new(p.self, 0, 0, &stream));
  succeed("event_new", p.event_new(p.self, 0, 1, &begin));
  succeed("event_new", p.event_new(p.self, 0, 1, &end));
  succeed("event_record", p.event_record(p.self, begin, stream));
  succeed("event_record", p.event_record(p.self, end, stream));
  succeed("event_wait", p.event_wait(p.self, end, stream));
  succeed("stream_sync", p.stream_sync(p.self, stream));
  expect(p.event_done(p.self, end) == 1, "an event is not done after its stream was waited for");
  double ms = -1;
  succeed("event_elapsed_ms", p.event_elapsed_ms(p.self, begin, end, &ms));
  expect(ms >= 0, "from one event to a later one it took {} ms", ms);
  p.event_free(p.self, begin);
  p.event_free(p.self, end);
  p.stream_free(p.self, stream);
}

int32_t device_number(const std::string& type) {
  return type == "cuda" ? int32_t{TN_DEV_CUDA} : int32_t{TN_DEV_FIRST_DYNAMIC};
}

// A device is there for tensors: one goes to it and comes back, through the host.
void check_use(Bench& bench, const std::string& type) {
  count_of(provider_of(bench, type));
  const tn_tensor_api& tensors = *own_host_table().tensor;
  constexpr int64_t sizes[] = {4};
  tn_tensor *there = nullptr, *back = nullptr;
  tn_status* made = tensors.empty(sizes, nullptr, 1, TN_F32, device_number(type), 0, &there);
  if (made)
    fail_check("no tensor can be made on it, so no program can use it: {}", text_and_free(made));
  Tensor on_device = take_tensor(there), numbers = full({4}, 3.0);
  succeed("copy to it", tensors.copy(on_device.head(), numbers.head(), nullptr));
  succeed("empty", tensors.empty(sizes, nullptr, 1, TN_F32, TN_DEV_CPU, -1, &back));
  Tensor found = take_tensor(back);
  succeed("copy from it", tensors.copy(found.head(), on_device.head(), nullptr));
  expect(same_bits(found, numbers), "a tensor that went to it and back is another one");
}

}  // namespace

void add_device_checks(std::vector<Check>& checks, const FoundPlugin& plugin) {
  for (const DeviceManifest& device : plugin.manifest.devices) {
    auto add = [&](const char* name, int level, void (*run)(Bench&, const std::string&)) {
      checks.push_back({message("device.{}.{}", device.type, name), "", level, "15",
                        "device " + device.type,
                        [run, type = device.type](Bench& bench) { run(bench, type); }});
    };
    add("count", 0, check_count);
    add("properties", 1, check_properties);
    add("copies", 1, check_copies);
    add("events", 1, check_events);
    add("use", 1, check_use);
  }
}

}  // namespace tenon::kit
