// Blocks with 64 bytes of a pattern in front of and behind them.
#include "debug/plugin_kit/guarded_memory.h"

#include "core/error.h"
#include "core/tensor/allocator.h"
#include "core/tensor/tensor_impl.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace tenon::kit {

namespace {

constexpr size_t zone = host_alignment;
constexpr unsigned char pattern = 0xC7;

/// Leaked: plugins give back until the process ends.
struct Blocks {
  std::mutex lock;
  std::map<const void*, size_t> bytes;  // by address of the block
};
Blocks& blocks() {
  static auto* instance = new Blocks;
  return *instance;
}

void* make_zones(size_t bytes) noexcept {
  size_t whole = zone + (bytes + zone - 1) / zone * zone + zone;
  auto* start = static_cast<unsigned char*>(std::aligned_alloc(zone, whole));
  if (!start) return nullptr;
  std::memset(start, pattern, whole);
  return start + zone;
}

bool is_untouched(const unsigned char* begin, size_t n) {
  return std::all_of(begin, begin + n, [](unsigned char c) { return c == pattern; });
}

std::string damage_of(const void* block, size_t bytes) {
  const auto* start = static_cast<const unsigned char*>(block);
  if (!is_untouched(start - zone, zone)) return message("wrote before a block of {} bytes", bytes);
  if (!is_untouched(start + bytes, zone)) return message("wrote behind a block of {} bytes", bytes);
  return "";
}

void free_zones(void* block) { std::free(static_cast<unsigned char*>(block) - zone); }

/// The memory of one guarded tensor.
struct TensorBlock {
  void* block;
  size_t bytes;
  void (*on_damage)(const std::string&);
};

void delete_tensor_block(void* p) {
  auto* b = static_cast<TensorBlock*>(p);
  if (std::string damage = damage_of(b->block, b->bytes); !damage.empty() && b->on_damage)
    b->on_damage(damage + " of a tensor");
  free_zones(b->block);
  delete b;
}

}  // namespace

void* guarded_allocate(size_t bytes) noexcept {
  void* block = make_zones(bytes);
  if (!block) return nullptr;
  std::lock_guard lock(blocks().lock);
  blocks().bytes[block] = bytes;
  return block;
}

std::string guarded_free(void* block, size_t bytes) {
  size_t asked = 0;
  {
    std::lock_guard lock(blocks().lock);
    auto found = blocks().bytes.find(block);
    if (found == blocks().bytes.end()) return "a block that svc->alloc did not give, or twice";
    asked = found->second;
    blocks().bytes.erase(found);
  }
  std::string damage = damage_of(block, asked);
  free_zones(block);
  if (asked != bytes) return message("a block of {} bytes as one of {}", asked, bytes);
  return damage;
}

GuardedMemory guarded_memory() {
  std::lock_guard lock(blocks().lock);
  GuardedMemory out;
  for (const auto& [block, bytes] : blocks().bytes) {
    ++out.blocks;
    out.bytes += static_cast<int64_t>(bytes);
  }
  return out;
}

Tensor between_guards(const Tensor& t, void (*on_damage)(const std::string& what)) {
  Extent extent = extent_of(t);
  auto bytes = static_cast<size_t>(span_of(extent.sizes, extent.strides) * extent.itemsize);
  void* block = make_zones(bytes);
  require(block != nullptr, "no memory for a tensor of {} bytes", bytes);
  if (bytes > 0) std::memcpy(block, t.head()->data, bytes);
  auto* owner = new TensorBlock{block, bytes, on_damage};
  return from_memory(block, extent.sizes, t.dtype(), OptIntList(extent.strides),
                     delete_tensor_block, owner);
}

std::string damage_around(const Tensor& guarded) {
  const Storage& storage = *impl_of(guarded)->storage_ref.get();
  const auto* owner = static_cast<const TensorBlock*>(storage.deleter_arg);
  return damage_of(owner->block, owner->bytes);
}

}  // namespace tenon::kit
