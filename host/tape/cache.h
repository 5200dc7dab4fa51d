// Programs by the structure of their tapes.
#pragma once

#include "tape/program.h"
#include "tape/trace.h"

#include <atomic>
#include <shared_mutex>
#include <unordered_map>

namespace tenon::tape {

/// One version for a tape: sizes that differ in what rules have asked about have others.
struct Version {
  std::shared_ptr<const Program> program;  ///< null: such passes run on the engine
  std::string why;                         ///< then
  bool is_kept = true;                     ///< false: for this pass only
  std::atomic<uint64_t> last_use{0};
  std::atomic<int32_t> departures{0};
};

/// All versions for one structure.
struct Entry {
  std::vector<uint64_t> words;
  /// The nodes in order, with where each ends among the words: for the reasons of misses.
  std::vector<std::pair<std::string, uint32_t>> nodes;
  std::vector<std::shared_ptr<Version>> versions;
  std::vector<int64_t> numbers;  ///< of the first recording
  Experience experience;
};

/// Look-ups take a shared lock for as long as they compare; recording and compiling happen outside.
/// Two threads that meet a new tape at once may both record it.
class Cache {
 public:
  struct Found {
    std::shared_ptr<Entry> entry;      ///< null: there is no such tape
    std::shared_ptr<Version> version;  ///< null: none that serves these sizes
  };
  Found find(const TapeWalk& walk, uint64_t hash);
  /// What is known of such tapes, with the numbers that have changed since.
  Experience experience_for(const TapeWalk& walk, uint64_t hash);
  /// Why nothing was found.
  std::string reason(const TapeWalk& walk, uint64_t hash) const;
  void add(const TapeWalk& walk, uint64_t hash, std::shared_ptr<Version> version);
  /// The pass was left where user code did something else.
  void learn(const Found& found, const Departure& departure);
  /// Forgets all.
  void clear();
  int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  std::shared_ptr<Entry> entry_of(const TapeWalk& walk, uint64_t hash) const;
  void drop_oldest(size_t most);

  mutable std::shared_mutex entries_lock_;
  std::unordered_multimap<uint64_t, std::shared_ptr<Entry>> entries_;
  size_t n_versions_ = 0;
  std::atomic<uint64_t> now_{0};
  std::atomic<int64_t> dropped_{0};
};

}  // namespace tenon::tape
