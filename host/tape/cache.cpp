// Finding programs, and letting those go that were used longest ago.
#include "tape/cache.h"

#include "config/flags.h"
#include "core/error.h"

#include <algorithm>
#include <mutex>

namespace tenon::tape {

namespace {

constexpr int32_t most_departures = 8;

bool same_key(const Entry& entry, const TapeWalk& walk) {
  return entry.words == walk.collected.words;
}

}  // namespace

std::shared_ptr<Entry> Cache::entry_of(const TapeWalk& walk, uint64_t hash) const {
  auto [begin, end] = entries_.equal_range(hash);
  for (auto at = begin; at != end; ++at)
    if (same_key(*at->second, walk)) return at->second;
  return nullptr;
}

Cache::Found Cache::find(const TapeWalk& walk, uint64_t hash) {
  std::shared_lock lock(entries_lock_);
  Found found{entry_of(walk, hash), nullptr};
  if (!found.entry) return found;
  for (const auto& version : found.entry->versions) {
    if (version->program && !version->program->serves(walk.collected.numbers)) continue;
    version->last_use.store(now_.fetch_add(1, std::memory_order_relaxed) + 1,
                            std::memory_order_relaxed);
    found.version = version;
    return found;
  }
  return found;
}

Experience Cache::experience_for(const TapeWalk& walk, uint64_t hash) {
  std::unique_lock lock(entries_lock_);
  std::shared_ptr<Entry> entry = entry_of(walk, hash);
  if (!entry) return {};
  entry->experience.changed.resize(entry->numbers.size());
  for (size_t i = 0; i < entry->numbers.size(); ++i)
    if (entry->numbers[i] != walk.collected.numbers[i]) entry->experience.changed[i] = true;
  return entry->experience;
}

void Cache::add(const TapeWalk& walk, uint64_t hash, std::shared_ptr<Version> version) {
  auto most = static_cast<size_t>(config::flags().compiled_autograd.cache_size);
  std::unique_lock lock(entries_lock_);
  std::shared_ptr<Entry> entry = entry_of(walk, hash);
  if (!entry) {
    entry = std::make_shared<Entry>();
    entry->words = walk.collected.words;
    entry->numbers = walk.collected.numbers;
    for (uint32_t at : walk.order)
      entry->nodes.emplace_back(walk.visits[at].node->name(), walk.visits[at].first_word);
    entries_.emplace(hash, entry);
  }
  version->last_use = now_.fetch_add(1, std::memory_order_relaxed) + 1;
  // Where sizes are not dynamic the new version serves what older ones do.
  if (version->program && !version->program->fixed.empty()) {
    n_versions_ -= entry->versions.size();
    entry->versions.clear();
  }
  entry->versions.insert(entry->versions.begin(), std::move(version));
  ++n_versions_;
  drop_oldest(most);
}

void Cache::drop_oldest(size_t most) {
  while (n_versions_ > most) {
    auto oldest = entries_.end();
    size_t place = 0;
    uint64_t used = ~uint64_t{0};
    for (auto at = entries_.begin(); at != entries_.end(); ++at)
      for (size_t i = 0; i < at->second->versions.size(); ++i)
        if (uint64_t last = at->second->versions[i]->last_use; last < used) {
          used = last;
          oldest = at;
          place = i;
        }
    if (oldest == entries_.end()) return;
    auto& versions = oldest->second->versions;
    versions.erase(versions.begin() + static_cast<ptrdiff_t>(place));
    if (versions.empty()) entries_.erase(oldest);
    --n_versions_;
    dropped_.fetch_add(1, std::memory_order_relaxed);
  }
}

// A function that gives no gradient where one was expected is recorded so; user code that goes on
// to surprise is left to the engine.
void Cache::learn(const Found& found, const Departure& departure) {
  std::unique_lock lock(entries_lock_);
  if (!departure.defined.empty())
    found.entry->experience.defined[departure.place] = departure.defined;
  bool gives_up = found.version->departures.fetch_add(1) + 1 >= most_departures;
  if (departure.defined.empty() && !gives_up) return;
  n_versions_ -= std::erase(found.entry->versions, found.version);
  if (!gives_up) return;
  auto left_alone = std::make_shared<Version>();
  left_alone->why = "its hooks or functions give gradients of changing kinds, or register hooks";
  left_alone->last_use = found.version->last_use.load();
  found.entry->versions.insert(found.entry->versions.begin(), std::move(left_alone));
  ++n_versions_;
}

void Cache::clear() {
  std::unique_lock lock(entries_lock_);
  entries_.clear();
  n_versions_ = 0;
  dropped_ = 0;
}

namespace {

// How many of the nodes the entry has in common with the tape, from the first on.
size_t common_nodes(const Entry& entry, const TapeWalk& walk) {
  const std::vector<uint64_t>& words = walk.collected.words;
  size_t n = 0;
  uint32_t from = 0;
  for (; n < std::min(entry.nodes.size(), walk.order.size()); ++n) {
    uint32_t end = entry.nodes[n].second;
    if (walk.visits[walk.order[n]].first_word != end) break;
    if (!std::equal(words.begin() + from, words.begin() + end, entry.words.begin() + from)) break;
    from = end;
  }
  return n;
}

std::string changed_sizes(const Entry& entry, const TapeWalk& walk) {
  std::string list;
  size_t n = 0;
  for (size_t i = 0; i < entry.numbers.size(); ++i) {
    if (entry.numbers[i] == walk.collected.numbers[i]) continue;
    constexpr size_t shown = 8;
    if (n < shown) list += message("{}sizes[{}]", n ? ", " : "", i);
    if (n++ == shown) list += ", ...";
  }
  return message("Cache miss due to {} changed tensor shapes (total of {}): {}", n, n, list);
}

}  // namespace

// As PyTorch says it: the first node that differs, and the sizes of the keys that nodes have in its
// place. Keys include all that stands before the first node.
std::string Cache::reason(const TapeWalk& walk, uint64_t hash) const {
  std::shared_lock lock(entries_lock_);
  if (std::shared_ptr<Entry> entry = entry_of(walk, hash)) return changed_sizes(*entry, walk);
  size_t most = 0;
  for (const auto& [h, entry] : entries_) most = std::max(most, common_nodes(*entry, walk));
  auto size_at = [&](size_t n, uint32_t end, uint32_t before) {
    return (end - (n ? before : 0)) * sizeof(uint64_t);
  };
  std::string others;
  for (const auto& [h, entry] : entries_) {
    if (common_nodes(*entry, walk) != most || most >= entry->nodes.size()) continue;
    uint32_t before = most ? entry->nodes[most - 1].second : 0;
    others += message("{}{}", others.empty() ? "" : ", ",
                      size_at(most, entry->nodes[most].second, before));
  }
  most = std::min(most, walk.order.size() - 1);
  const Visit& v = walk.visits[walk.order[most]];
  uint32_t before = most ? walk.visits[walk.order[most - 1]].first_word : 0;
  return message(
      "Cache miss due to new autograd node: {} (NodeCall {}) with key size {}, previous key "
      "sizes=[{}]",
      v.node->name(), most + 1, size_at(most, v.first_word, before), others);
}

}  // namespace tenon::tape
