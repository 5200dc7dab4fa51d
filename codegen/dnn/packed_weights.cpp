// The bounded store of packed weights.
#include "packed_weights.h"

#include <tenon/memory.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <list>
#include <map>
#include <mutex>
#include <new>

namespace onednn {

namespace {

/// An entry is found without the version, so that a newer one takes the place of an older.
using Place = std::pair<uint64_t, std::vector<int64_t>>;

/// A storage, and how it is read: offset and strides.
using Use = std::pair<uint64_t, std::array<int64_t, 3>>;

struct Entry {
  uint64_t version;
  PackedPtr packed;
  std::list<const Place*>::iterator use;
};

struct Store {
  std::mutex guarding;  // guards all below
  std::map<Place, Entry> at;
  std::list<const Place*> by_use;  // latest first
  size_t bytes = 0;
  std::map<Use, uint64_t> seen;  // the version
};

Store& store() {
  static auto* the_store = new Store;  // leaked: kernels may run until the process ends
  return *the_store;
}

// TENON_KERNELS_ONEDNN_PACKED_MIB, 512 unless given.
size_t byte_limit() {
  static const size_t limit = [] {
    const char* text = std::getenv("TENON_KERNELS_ONEDNN_PACKED_MIB");
    return (text ? std::strtoull(text, nullptr, 10) : 512) << 20;
  }();
  return limit;
}

/// A search among more would take longer than to pack such small weights.
constexpr size_t most_entries = 1 << 14;

/// All that is kept for an entry, of which small weights are the smaller part.
size_t bytes_of(const Place& place, const Packed& packed) {
  constexpr size_t of_nodes = 256;  // of the map, the list and the pointer, and what malloc adds
  return packed.bytes() + place.second.capacity() * sizeof(int64_t) + of_nodes;
}

void erase(Store& s, std::map<Place, Entry>::iterator at) {
  s.bytes -= bytes_of(at->first, *at->second.packed);
  s.by_use.erase(at->second.use);
  s.at.erase(at);
}

}  // namespace

Packed::Packed(size_t bytes)
    : data_(std::aligned_alloc(64, (bytes + 63) / 64 * 64)), bytes_(bytes) {
  if (!data_) throw std::bad_alloc();
}

Packed::~Packed() { std::free(data_); }

WeightsKey::WeightsKey(const tn_tensor& t, std::vector<int64_t> use, uint64_t layout)
    : storage_id(t.storage_id), version(t.version ? TN_VERSION(&t) : 0), view(std::move(use)) {
  view.push_back(t.storage_offset);
  view.push_back(t.dtype);
  view.push_back(static_cast<int64_t>(layout));
  view.insert(view.end(), t.sizes, t.sizes + t.ndim);
  view.insert(view.end(), t.strides, t.strides + t.ndim);
}

PackedPtr find_packed(const WeightsKey& key) {
  Store& s = store();
  std::lock_guard lock(s.guarding);
  auto found = s.at.find({key.storage_id, key.view});
  if (found == s.at.end() || found->second.version != key.version) return nullptr;
  s.by_use.splice(s.by_use.begin(), s.by_use, found->second.use);
  return found->second.packed;
}

void keep_packed(const WeightsKey& key, PackedPtr packed) {
  Place place{key.storage_id, key.view};
  size_t bytes = bytes_of(place, *packed);
  if (bytes > byte_limit()) return;
  Store& s = store();
  std::lock_guard lock(s.guarding);
  if (auto old = s.at.find(place); old != s.at.end()) erase(s, old);
  auto at = s.at.emplace(std::move(place), Entry{key.version, std::move(packed), {}}).first;
  at->second.use = s.by_use.insert(s.by_use.begin(), &at->first);
  s.bytes += bytes;
  while (s.bytes > byte_limit() || s.at.size() > most_entries)
    erase(s, s.at.find(*s.by_use.back()));
}

bool may_keep(const tn_tensor& t) {
  static const auto* memory = static_cast<const tn_memory_api*>(
      tenon::plugin::host->extension(TN_MEMORY_ID, TN_MEMORY_VERSION));
  static const bool tells_ends =
      memory && memory->struct_size >= offsetof(tn_memory_api, tell_end) + sizeof(memory->tell_end);
  if (!memory || !memory->is_private(&t)) return false;
  if (tells_ends) memory->tell_end(&t, forget_storage);
  return true;
}

void forget_storage(uint64_t storage_id) {
  Store& s = store();
  std::lock_guard lock(s.guarding);
  auto is_of_it = [&](const auto& entries, auto at) {
    return at != entries.end() && at->first.first == storage_id;
  };
  for (auto at = s.at.lower_bound({storage_id, {}}); is_of_it(s.at, at);) erase(s, at++);
  constexpr int64_t least = std::numeric_limits<int64_t>::min();
  for (auto at = s.seen.lower_bound({storage_id, {least, least, least}}); is_of_it(s.seen, at);)
    at = s.seen.erase(at);
}

bool seen_before(const tn_tensor& t, std::array<int64_t, 2> use) {
  if (!may_keep(t)) return false;
  constexpr size_t most = 4096;
  uint64_t version = t.version ? TN_VERSION(&t) : 0;
  Store& s = store();
  std::lock_guard lock(s.guarding);
  const Use key{t.storage_id, {t.storage_offset, use[0], use[1]}};
  if (s.seen.size() >= most && !s.seen.contains(key)) s.seen.clear();
  auto [at, added] = s.seen.try_emplace(key, version);
  bool same = !added && at->second == version;
  at->second = version;
  return same;
}

void drop_packed() {
  Store& s = store();
  std::lock_guard lock(s.guarding);
  s.by_use.clear();
  s.at.clear();
  s.seen.clear();
  s.bytes = 0;
}

}  // namespace onednn
