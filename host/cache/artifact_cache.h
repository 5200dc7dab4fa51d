// The cache on disk: what was made once on a machine, found again by key.
//
// One store for entries of all kinds: <root>/<kind>/<owner>/<fingerprint>/<key>, where the root is
// config::cache_folder(). A file is written under another name in its folder and renamed, so that
// nobody sees half of one; its seal covers its bytes and its place, so that a damaged, cut off or
// moved file is a miss. Files that are not plain ones of this user are never believed. Whatever
// the disk does, a caller sees a hit or a miss and no error.
//
// Counters: cache.hit, cache.miss, cache.writes, cache.damaged, cache.measured,
// cache.evicted.
#pragma once

#include "graph/hash.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {

/// Where an entry is, below the root.
struct CacheKey {
  std::string folder;  ///< "kernels/inductor-1.0.0/0123456789abcdef": three names
  std::string name;    ///< as KeyBuilder gives it
};

/// Makes keys of named parts. Different parts, or another order, give another key.
class KeyBuilder {
 public:
  KeyBuilder& add(std::string_view what, std::string_view value);
  std::string hex() const;  ///< 64 digits

 private:
  std::string text_;
};

/// The store in one folder, which need not exist. Threads and processes: any number, at once.
class ArtifactCache {
 public:
  explicit ArtifactCache(std::string root) : root_(std::move(root)) {}
  ArtifactCache(const ArtifactCache&) = delete;

  std::optional<std::string> get(const CacheKey& key);
  /// Keeps the size of the store at most `limit`; the entries whose use is longest ago go first.
  /// What is larger than half of that is not kept. Whether the entry is there now.
  bool put(const CacheKey& key, std::string_view bytes, int64_t limit);
  /// As get(), which counts, does.
  std::optional<std::string> peek(const CacheKey& key) { return read(key); }
  /// The entries that this process has found or put there, the first 65536 of them.
  std::vector<CacheKey> used() const;

 private:
  std::string path_of(const CacheKey& key) const;
  std::optional<std::string> read(const CacheKey& key);
  bool write(const CacheKey& key, std::string_view bytes);
  void note_use(const CacheKey& key);
  void keep_small(const CacheKey& key, int64_t written, int64_t limit);
  void tell_once(const std::string& problem);

  const std::string root_;
  std::atomic<bool> told_{false};
  mutable std::mutex used_lock_;
  /// By folder, names as bytes: a process may compile for a long time.
  std::map<std::string, std::set<Digest>> used_;
  size_t n_used_ = 0;
  std::mutex measuring_;
  /// Bytes that were written since this process measured the store.
  std::atomic<int64_t> unmeasured_{0};
};

/// The store of this user; null where it is switched off (compiler.force_disable_caches), where no
/// folder is known, and in programs that run with more rights than their user.
ArtifactCache* artifact_cache();

}  // namespace tenon
