// Pinned memory and staged copies.
#include "staging.h"

#include "gpu.h"

#include <tenon/plugin.hpp>
#include <tenon/thread_object.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <vector>

namespace tenon::cuda {

using plugin::error;
using plugin::text;

namespace {

constexpr size_t chunk_bytes = size_t{4} << 20;
constexpr size_t least_pinned = size_t{4} << 10;

/// A block and, by device, the mark behind the last copy from or to it.
struct PinnedBlock {
  size_t bytes;
  std::map<Gpu*, api::Event> used;
};

/// Blocks of a power of two; freed ones are kept by size, since pinning costs the driver
/// milliseconds.
struct PinnedMemory {
  std::mutex using_it;
  std::map<uintptr_t, PinnedBlock> blocks;  // all that there are, by where they begin
  std::map<size_t, std::vector<uintptr_t>> idle;

  /// The block that an address is in, or null.
  std::pair<const uintptr_t, PinnedBlock>* find(const void* memory) {
    auto begin = reinterpret_cast<uintptr_t>(memory);
    auto after = blocks.upper_bound(begin);
    if (after == blocks.begin()) return nullptr;
    auto& found = *std::prev(after);
    return begin - found.first < found.second.bytes ? &found : nullptr;
  }
};

PinnedMemory& pinned() {
  static auto* const memory = new PinnedMemory;
  return *memory;
}

// Whether no copy uses the block any more.
bool is_at_rest(const PinnedBlock& block) {
  return std::ranges::all_of(block.used, [](const auto& used) {
    return used.first->is_lost() || driver().cuEventQuery(used.second) == api::success;
  });
}

// A block that was given back and is done with, or null.
void* take_idle(PinnedMemory& p, size_t bytes) {
  std::vector<uintptr_t>& idle = p.idle[bytes];
  for (auto at = idle.begin(); at != idle.end(); ++at) {
    if (!is_at_rest(p.blocks.at(*at))) continue;
    uintptr_t found = *at;
    idle.erase(at);
    return reinterpret_cast<void*>(found);
  }
  return nullptr;
}

size_t block_bytes(size_t bytes) { return std::bit_ceil(std::max(bytes, least_pinned)); }

}  // namespace

void* allocate_pinned(size_t bytes) {
  if (bytes > SIZE_MAX / 2)
    throw error(TN_OUT_OF_MEMORY, text("{} bytes of pinned memory do not fit into memory", bytes));
  Gpu& gpu = gpu_at(0);
  gpu.bind();
  PinnedMemory& p = pinned();
  size_t size = block_bytes(bytes);
  std::lock_guard lock(p.using_it);
  if (void* idle = take_idle(p, size)) return idle;
  void* memory = nullptr;
  CU_TRY(gpu, text("pinning {} bytes", size), cuMemHostAlloc, &memory, size, api::host_portable);
  p.blocks.emplace(reinterpret_cast<uintptr_t>(memory), PinnedBlock{size, {}});
  return memory;
}

void free_pinned(void* memory, size_t bytes) noexcept {
  plugin::detail::quietly("cuda", [&] {
    PinnedMemory& p = pinned();
    std::lock_guard lock(p.using_it);
    p.idle[block_bytes(bytes)].push_back(reinterpret_cast<uintptr_t>(memory));
  });
}

namespace {

constexpr size_t slot_bytes = 16;

/// Slots that no thread has; blocks of them stay.
struct Slots {
  std::mutex taking;
  std::vector<void*> idle;

  void* take() {
    std::lock_guard lock(taking);
    if (idle.empty()) {
      char* block = static_cast<char*>(allocate_pinned(least_pinned));
      for (size_t at = 0; at < least_pinned; at += slot_bytes) idle.push_back(block + at);
    }
    void* taken = idle.back();
    idle.pop_back();
    return taken;
  }
  void put_back(void* slot) {
    std::lock_guard lock(taking);
    idle.push_back(slot);
  }
};

Slots& slots() {
  static auto* const all = new Slots;
  return *all;
}

struct ThreadSlot {
  void* memory = nullptr;
  ~ThreadSlot() {
    if (memory) slots().put_back(memory);
  }
};

}  // namespace

void* pinned_slot() {
  ThreadSlot& mine = ThreadObject<ThreadSlot>::get();
  if (!mine.memory) mine.memory = slots().take();
  return mine.memory;
}

bool is_pinned(const void* memory, size_t bytes) {
  PinnedMemory& p = pinned();
  std::lock_guard lock(p.using_it);
  auto* found = p.find(memory);
  return found &&
         bytes <= found->second.bytes - (reinterpret_cast<uintptr_t>(memory) - found->first);
}

void note_pinned_use(const void* memory, Gpu& gpu, api::Stream stream) {
  PinnedMemory& p = pinned();
  std::lock_guard lock(p.using_it);
  api::Event& mark = p.find(memory)->second.used[&gpu];
  if (!mark) CU_TRY(gpu, "marking a copy", cuEventCreate, &mark, api::event_disable_timing);
  CU_TRY(gpu, "marking a copy", cuEventRecord, mark, stream);
}

void Staging::prepare() {
  for (Buffer& b : buffers_) {
    if (!b.memory) b.memory = allocate_pinned(chunk_bytes);
    if (!b.done) CU_TRY(gpu_, "staging a copy", cuEventCreate, &b.done, api::event_disable_timing);
  }
}

void Staging::wait_for(Buffer& buffer) {
  if (!buffer.busy) return;
  CU_TRY(gpu_, "waiting for a copy", cuEventSynchronize, buffer.done);
  buffer.busy = false;
}

void Staging::to_device(void* to, const void* from, size_t bytes, api::Stream stream) {
  std::lock_guard lock(copying_);
  prepare();
  const char* source = static_cast<const char*>(from);
  api::Address target = address_of(to);
  for (size_t at = 0, turn = 0; at < bytes; at += chunk_bytes, ++turn) {
    Buffer& b = buffers_[turn % buffers_.size()];
    size_t n = std::min(chunk_bytes, bytes - at);
    wait_for(b);
    std::memcpy(b.memory, source + at, n);
    CU_TRY(gpu_, text("copying {} bytes to the device", bytes), cuMemcpyAsync, target + at,
           address_of(b.memory), n, stream);
    CU_TRY(gpu_, "staging a copy", cuEventRecord, b.done, stream);
    b.busy = true;
  }
}

void Staging::to_host(void* to, const void* from, size_t bytes, api::Stream stream) {
  std::lock_guard lock(copying_);
  prepare();
  char* target = static_cast<char*>(to);
  api::Address source = address_of(from);
  auto fetch = [&](size_t at, Buffer& b) {
    wait_for(b);
    CU_TRY(gpu_, text("copying {} bytes from the device", bytes), cuMemcpyAsync,
           address_of(b.memory), source + at, std::min(chunk_bytes, bytes - at), stream);
    CU_TRY(gpu_, "staging a copy", cuEventRecord, b.done, stream);
    b.busy = true;
  };
  fetch(0, buffers_[0]);
  for (size_t at = 0, turn = 0; at < bytes; at += chunk_bytes, ++turn) {
    if (at + chunk_bytes < bytes) fetch(at + chunk_bytes, buffers_[(turn + 1) % 2]);
    Buffer& b = buffers_[turn % 2];
    wait_for(b);
    std::memcpy(target + at, b.memory, std::min(chunk_bytes, bytes - at));
  }
}

}  // namespace tenon::cuda
