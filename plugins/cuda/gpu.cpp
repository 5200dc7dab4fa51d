// One GPU: opening it, what it is, and losing it.
#include "gpu.h"

#include <tenon/plugin.hpp>

namespace tenon::cuda {

using plugin::error;
using plugin::text;

namespace {

constexpr int least_capability = 75;  // 7.5: what the toolkit of 13.0 still makes code for
constexpr int name_length = 256;

// The thread's current device, so that binding it again costs no call.
thread_local constinit Gpu* bound = nullptr;

int attribute(Gpu& gpu, int32_t which) {
  int value = 0;
  CU_TRY(gpu, "reading a property", cuDeviceGetAttribute, &value, which, gpu.index());
  return value;
}

// Devices by index, made when they are first asked for; leaked, as tensors may outlive anything.
std::vector<std::unique_ptr<Gpu>>& gpus() {
  static auto* const all = [] {
    auto* made = new std::vector<std::unique_ptr<Gpu>>;
    for (int i = 0; i < opened().devices; ++i) made->push_back(std::make_unique<Gpu>(i));
    return made;
  }();
  return *all;
}

}  // namespace

Gpu& gpu_at(int32_t index) {
  driver();
  size_t at = index < 0 ? 0 : static_cast<size_t>(index);
  if (at >= gpus().size())
    throw error(TN_INVALID_ARGUMENT,
                text("there is no device cuda:{}; this machine has {}, counted "
                     "from 0",
                     index, gpus().size()));
  return *gpus()[at];
}

Gpu::Gpu(int index) : index_(index) {}

void Gpu::open() {
  int capability = attribute(*this, api::attribute_capability_major) * 10 +
                   attribute(*this, api::attribute_capability_minor);
  if (capability < least_capability)
    throw error(TN_UNAVAILABLE, text("device capability too low (cuda:{} has {}.{}, needs 7.5)",
                                     index_, capability / 10, capability % 10));
  if (!attribute(*this, api::attribute_memory_pools))
    throw error(TN_UNAVAILABLE, text("cuda:{} has no memory pools", index_));
  CU_TRY(*this, "opening the device", cuDevicePrimaryCtxRetain, &context_, index_);
  CU_TRY(*this, "opening the device", cuCtxSetCurrent, context_);
  bound = this;
  api::PoolProperties properties;
  properties.location_id = index_;
  CU_TRY(*this, "opening the device", cuMemPoolCreate, &pool_, &properties);
  uint64_t keep_all = UINT64_MAX;
  CU_TRY(*this, "opening the device", cuMemPoolSetAttribute, pool_, api::pool_release_threshold,
         &keep_all);
  staging_ = std::make_unique<Staging>(*this);
}

void Gpu::bind() {
  if (is_forked_child())
    throw error(TN_UNAVAILABLE, text("cuda:{} cannot be used in a process that was forked after "
                                     "its first use; start the process with exec or spawn instead",
                                     index_));
  require_alive();
  std::call_once(opening_, [this] { open(); });
  if (bound == this) return;
  CU_TRY(*this, "choosing the device", cuCtxSetCurrent, context_);
  bound = this;
}

void Gpu::require_alive() const {
  if (!is_lost()) return;
  std::lock_guard lock(losing_);
  throw error(TN_UNAVAILABLE,
              text("the device cuda:{} is lost; nothing runs on it until the process starts anew. "
                   "First cause: {}",
                   index_, cause_));
}

void Gpu::lose(const std::string& why) {
  std::lock_guard lock(losing_);
  if (is_lost()) return;
  cause_ = why;
  lost_.store(true, std::memory_order_release);
}

void Gpu::fill(tn_device_props& out) {
  bind();
  struct Text {
    std::string name, arch;
  };
  static std::mutex making;
  static auto* const texts = new std::map<int, Text>;  // the host keeps what it is given
  char name[name_length] = {};
  size_t free = 0, total = 0;
  CU_TRY(*this, "reading a property", cuDeviceGetName, name, name_length, index_);
  CU_TRY(*this, "reading a property", cuMemGetInfo, &free, &total);
  int major = attribute(*this, api::attribute_capability_major);
  int minor = attribute(*this, api::attribute_capability_minor);
  std::lock_guard lock(making);
  Text& kept = texts->try_emplace(index_, Text{name, text("sm_{}{}", major, minor)}).first->second;
  tn_device_props filled{};
  filled.struct_size = out.struct_size;
  filled.compute_units = static_cast<uint32_t>(attribute(*this, api::attribute_multiprocessors));
  filled.total_bytes = total;
  filled.free_bytes = free;
  filled.capability_major = major;
  filled.capability_minor = minor;
  filled.name = plugin::str(kept.name);
  filled.arch = plugin::str(kept.arch);
  out = filled;
}

void Gpu::synchronize() {
  bind();
  CU_TRY(*this, "waiting for the device", cuCtxSynchronize);
}

}  // namespace tenon::cuda
