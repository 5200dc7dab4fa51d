// One GPU: opening it, what it is, and losing it.
#include "gpu.h"

#include "error_flag.h"
#include "trees/recording.h"

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

// Not in std::call_once(): an error that leaves it would need memory for that.
void Gpu::open() {
  std::lock_guard lock(opening_);
  if (is_open_.load(std::memory_order_relaxed)) return;
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
  void* flag = nullptr;
  CU_TRY(*this, "opening the device", cuMemHostAlloc, &flag, sizeof(tn_cuda_error_flag),
         api::host_portable | api::host_mapped);
  flag_ = new (flag) tn_cuda_error_flag{};
  staging_ = std::make_unique<Staging>(*this);
  is_open_.store(true, std::memory_order_release);
}

void Gpu::bind() {
  if (is_forked_child())
    throw error(TN_UNAVAILABLE, text("cuda:{} cannot be used in a process that was forked after "
                                     "its first use; start the process with exec or spawn instead",
                                     index_));
  require_alive();
  if (!is_open_.load(std::memory_order_acquire)) open();
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

namespace {

/// What the host is told of a device by reference.
struct Texts {
  std::string name, arch;
};

const Texts& texts_of(Gpu& gpu) {
  static std::mutex making;
  static auto* const made = new std::map<int, Texts>;
  std::lock_guard lock(making);
  if (auto known = made->find(gpu.index()); known != made->end()) return known->second;
  char name[name_length] = {};
  CU_TRY(gpu, "reading a property", cuDeviceGetName, name, name_length, gpu.index());
  const std::string& own = opened().architecture;
  std::string arch = own.empty() ? text("sm_{}{}", attribute(gpu, api::attribute_capability_major),
                                        attribute(gpu, api::attribute_capability_minor))
                                 : own;
  return made->emplace(gpu.index(), Texts{name, arch}).first->second;
}

}  // namespace

void Gpu::fill(tn_device_props& out) {
  bind();
  const Texts& texts = texts_of(*this);
  size_t free = 0, total = 0;
  CU_TRY(*this, "reading a property", cuMemGetInfo, &free, &total);
  tn_device_props filled{};
  filled.struct_size = out.struct_size;
  filled.compute_units = static_cast<uint32_t>(attribute(*this, api::attribute_multiprocessors));
  filled.total_bytes = total;
  filled.free_bytes = free;
  filled.capability_major = attribute(*this, api::attribute_capability_major);
  filled.capability_minor = attribute(*this, api::attribute_capability_minor);
  filled.name = plugin::str(texts.name);
  filled.arch = plugin::str(texts.arch);
  out = filled;
}

void Gpu::fill(tn_cuda_facts& out) {
  bind();
  auto read = [&](int32_t which) { return static_cast<uint32_t>(attribute(*this, which)); };
  out.warp = read(api::attribute_warp);
  out.capability_major = attribute(*this, api::attribute_capability_major);
  out.capability_minor = attribute(*this, api::attribute_capability_minor);
  out.multiprocessors = read(api::attribute_multiprocessors);
  out.threads_per_block = read(api::attribute_threads_per_block);
  out.threads_per_multiprocessor = read(api::attribute_threads_per_multiprocessor);
  out.blocks_per_multiprocessor = read(api::attribute_blocks_per_multiprocessor);
  out.registers_per_block = read(api::attribute_registers_per_block);
  out.registers_per_multiprocessor = read(api::attribute_registers_per_multiprocessor);
  out.shared_per_block = read(api::attribute_shared_per_block);
  out.shared_per_block_most = read(api::attribute_shared_per_block_most);
  out.shared_per_multiprocessor = read(api::attribute_shared_per_multiprocessor);
  out.driver_version = static_cast<uint32_t>(opened().version);
  out.l2_bytes = read(api::attribute_l2_bytes);
  out.arch = plugin::str(texts_of(*this).arch);
}

void Gpu::synchronize() {
  bind();
  auto alone = trees::no_recording(*this);
  CU_TRY(*this, "waiting for the device", cuCtxSynchronize, context_);
  tell_of(*flag_);
}

void Gpu::synchronize(tn_stream* stream) {
  bind();
  trees::StreamUse use(stream);
  if (trees::Recording* r = use.recording())
    r->refuse({"data_dependent", "the function waits for its stream"});
  CU_TRY(*this, "waiting for a stream", cuStreamSynchronize, handle_of(stream));
  tell_of(*flag_);
}

tn_cuda_error_flag& Gpu::error_flag() {
  bind();
  return *flag_;
}

}  // namespace tenon::cuda
