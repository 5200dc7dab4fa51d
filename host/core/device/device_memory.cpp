// Storages of devices, pinned memory, and copies between devices.
#include "core/device/device_memory.h"

#include "core/device/overwritten.h"
#include "core/device/provider.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/kernels/pointwise_loop.h"
#include "core/tensor/exposure.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <span>

namespace tenon {

namespace {

using detail::StreamState;

bool is_host(Device device) { return device.type == DeviceType::cpu; }

/// What stands behind a storage on a device.
struct DeviceBlock {
  DeviceProvider* provider;
  void* data;
  uint64_t bytes;
  std::shared_ptr<StreamState> stream;
  std::mutex recording;  // guards others
  std::vector<std::shared_ptr<StreamState>> others;
};

// The block goes back behind what the other streams still do with it.
void wait_for_others(DeviceBlock& block) {
  for (const std::shared_ptr<StreamState>& other : block.others) {
    Event used(other->device);
    used.record(Stream(other));
    Stream(block.stream).wait(used);
  }
}

void free_block(void* arg) {
  std::unique_ptr<DeviceBlock> block(static_cast<DeviceBlock*>(arg));
  try {
    wait_for_others(*block);
  } catch (const Error&) {
    return;  // a lost device: its memory is lost with it
  }
  block->provider->release(block->stream->device.index, block->data, block->bytes,
                           block->stream->handle);
}

DeviceBlock* block_of(const Tensor& t) {
  const StorageRef& storage = impl_of(t)->storage_ref;
  return storage && storage->deleter == &free_block
             ? static_cast<DeviceBlock*>(storage->deleter_arg)
             : nullptr;
}

/// What stands behind a pinned storage.
struct PinnedBlock {
  DeviceProvider* provider;
  void* data;
  uint64_t bytes;
};

void free_pinned(void* arg) {
  std::unique_ptr<PinnedBlock> block(static_cast<PinnedBlock*>(arg));
  block->provider->release_pinned(block->data, block->bytes);
}

IntList sizes_of(const Tensor& t) { return {impl_of(t)->sizes, static_cast<size_t>(t.dim())}; }
IntList strides_of(const Tensor& t) { return {impl_of(t)->strides, static_cast<size_t>(t.dim())}; }

uint64_t span_bytes(const Tensor& t) {
  return static_cast<uint64_t>(span_of(sizes_of(t), strides_of(t))) * itemsize(t.dtype());
}

// Whether the elements fill the bytes from the first to the last.
bool is_dense(const Tensor& t) {
  return !has_internal_overlap(t) && span_of(sizes_of(t), strides_of(t)) == impl_of(t)->numel;
}

bool have_one_layout(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && std::ranges::equal(sizes_of(a), sizes_of(b)) &&
         std::ranges::equal(strides_of(a), strides_of(b)) && is_dense(a);
}

void copy_on_host(const Tensor& to, const Tensor& from) {
  size_t missing = static_cast<size_t>(to.dim() - from.dim());
  InlineVector<int64_t, 8> strides(static_cast<size_t>(to.dim()));
  for (size_t d = 0; d < sizes_of(from).size(); ++d)
    if (sizes_of(from)[d] != 1) strides[missing + d] = strides_of(from)[d];
  copy_strided({impl_of(to)->data, to.dtype(), impl_of(to)->strides},
               {impl_of(from)->data, from.dtype(), strides.data()}, sizes_of(to));
}

void move_bytes(const Tensor& to, const Tensor& from) {
  copy_bytes(impl_of(to)->data, to.device(), impl_of(from)->data, from.device(), span_bytes(to));
}

// From one device to another of its type: behind the work on the source's stream.
void copy_between(void* to, Device to_device, const void* from, Device from_device,
                  uint64_t bytes) {
  DeviceProvider& provider = provider_of(to_device);
  if (from_device != to_device) {
    Event ready(from_device);
    ready.record(Stream::current(from_device));
    Stream::current(to_device).wait(ready);
  }
  provider.copy(to_device.index, to, from, bytes, CopyDirection::on_device,
                current_stream(to_device));
}

}  // namespace

StorageRef make_device_storage(Device device, uint64_t bytes) {
  DeviceProvider& provider = provider_of(device);
  if (bytes == 0) return make_borrowed_storage(nullptr, 0, device, nullptr, nullptr);
  auto block = std::make_unique<DeviceBlock>();
  block->provider = &provider;
  block->bytes = bytes;
  block->stream = current_stream_state(device);
  block->data = provider.allocate(device.index, bytes, block->stream->handle);
  StorageRef storage = make_borrowed_storage(block->data, bytes, device, &free_block, block.get());
  static_cast<void>(block.release());
  keep_private(*storage.get());
  return storage;
}

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, uint64_t bytes) {
  if (bytes == 0) return;
  if (is_host(to_device) && is_host(from_device)) {
    std::memcpy(to, from, bytes);
  } else if (is_host(from_device)) {
    provider_of(to_device).copy(to_device.index, to, from, bytes, CopyDirection::to_device,
                                current_stream(to_device));
  } else if (is_host(to_device)) {
    provider_of(from_device)
        .copy(from_device.index, to, from, bytes, CopyDirection::to_host,
              current_stream(from_device));
  } else if (to_device.type == from_device.type) {
    copy_between(to, to_device, from, from_device, bytes);
  } else {
    std::vector<std::byte> between(bytes);
    copy_bytes(between.data(), kCPU, from, from_device, bytes);
    copy_bytes(to, to_device, between.data(), kCPU, bytes);
  }
}

bool (*copy_on_device_slot)(const Tensor&, const Tensor&) = nullptr;
const uint64_t* overwritten_results = nullptr;
void (*check_result_slot)(const Tensor&) = nullptr;

Tensor host_like(const Tensor& t) {
  return make_tensor(SymIntList(sizes_of(t)), SymIntList(strides_of(t)), t.dtype());
}

Tensor on_host(const Tensor& t) {
  if (is_host(t.device())) return t;
  check_not_overwritten(t);
  Tensor host = host_like(t);
  move_bytes(host, t);
  return host;
}

namespace {

Tensor number_on(Device device, const Tensor& number) {
  TensorMeta meta = meta_of(number);
  meta.device = device;
  Tensor there = make_tensor(meta);
  move_bytes(there, number);
  return there;
}

bool copy_on_device(const Tensor& to, const Tensor& from) {
  if (!copy_on_device_slot || is_host(to.device())) return false;
  if (to.device() == from.device()) return copy_on_device_slot(to, from);
  bool is_number = is_host(from.device()) && from.dim() == 0;
  return is_number && copy_on_device_slot(to, number_on(to.device(), from));
}

}  // namespace

void fill_there(const Tensor& to, const Tensor& number) {
  if (impl_of(to)->numel == 0) return;
  auto bytes = std::span(static_cast<const uint8_t*>(impl_of(number)->data), itemsize(to.dtype()));
  bool is_one_byte = std::ranges::all_of(bytes, [&](uint8_t b) { return b == bytes[0]; });
  if (!is_one_byte || !is_dense(to)) return copy_across(to, number);
  provider_of(to.device())
      .fill(to.device().index, impl_of(to)->data, bytes[0], span_bytes(to),
            current_stream(to.device()));
}

void copy_across(const Tensor& to, const Tensor& from) {
  if (impl_of(to)->numel == 0) return;
  if (is_host(to.device()) && is_host(from.device())) return copy_on_host(to, from);
  check_not_overwritten(to);
  check_not_overwritten(from);
  if (have_one_layout(to, from)) {
    move_bytes(to, from);
    // Who reads pinned memory does not ask whether the copy has come about.
    if (is_host(to.device())) Stream::current(from.device()).synchronize();
    return;
  }
  if (copy_on_device(to, from)) return;
  Tensor host_from = on_host(from);
  if (is_host(to.device())) return copy_on_host(to, host_from);
  // What lies between the elements of the target stays.
  Tensor host_to = is_dense(to) ? host_like(to) : on_host(to);
  copy_on_host(host_to, host_from);
  move_bytes(to, host_to);
}

void record_stream(const Tensor& t, const Stream& stream) {
  require(t.defined() && !t.is_fake(), "record_stream: a tensor with data is expected");
  DeviceBlock* block = block_of(t);
  if (!block || stream.state() == block->stream) return;
  std::lock_guard lock(block->recording);
  if (std::ranges::find(block->others, stream.state()) == block->others.end())
    block->others.push_back(stream.state());
}

Tensor pin_memory(const Tensor& t, DeviceType type) {
  require(t.defined() && !t.is_fake() && is_host(t.device()),
          "pin_memory: a tensor with data on the CPU is expected, found {}", symbolic_text(t));
  DeviceProvider& provider = provider_of(Device(type));
  Tensor pinned = host_like(t);
  uint64_t bytes = span_bytes(t);
  if (bytes == 0) return pinned;
  auto block = std::make_unique<PinnedBlock>();
  *block = {&provider, provider.allocate_pinned(bytes), bytes};
  Tensor out = from_memory(block->data, sizes_of(t), t.dtype(), OptIntList(strides_of(t)),
                           &free_pinned, block.get());
  static_cast<void>(block.release());
  impl_of(out)->flags |= TN_T_PINNED;
  copy_on_host(out, t);
  return out;
}

bool is_pinned(const Tensor& t) { return impl_of(t)->flags & TN_T_PINNED; }

}  // namespace tenon
