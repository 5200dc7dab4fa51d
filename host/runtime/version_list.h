// Versions of compiled code in most-recently-hit order, which calls read without a lock.
//
// Problem. A call walks the list while another thread adds versions, drops them, or resets the
// callable; a version must live as long as a call that has found it.
// Method. Calls announce themselves in counters, one for each of a few groups of threads. What is
// taken out of the list waits until each counter has been seen at zero since: then no call that
// began before is left. The last call to leave a counter looks; so memory is freed with the last call
// that may use it, and no call ever waits.
// Cost. Two atomic additions on a line of the thread's own per call.
//
// Threads: size, operator[] and Reading from any thread; all else under a lock of the owner.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <vector>

namespace tenon {

template <class T>
class VersionList {
  static constexpr size_t n_shards = 8;
  static constexpr uint32_t all_seen = (1u << n_shards) - 1;

 public:
  VersionList() : slots_(new Slots(8)) {}
  VersionList(const VersionList&) = delete;
  ~VersionList() { delete slots_.load(std::memory_order_relaxed); }

  /// The shard of the calling thread.
  static size_t my_shard() {
    static constinit thread_local size_t mine = n_shards;
    if (mine == n_shards) [[unlikely]] {
      static std::atomic<size_t> next_thread{0};
      mine = next_thread.fetch_add(1, std::memory_order_relaxed) % n_shards;
    }
    return mine;
  }

  /// While one lives, what this thread finds in the list stays alive.
  class Reading {
   public:
    explicit Reading(VersionList& list) : list_(list), shard_(my_shard()) {
      list_.shards_[shard_].active.fetch_add(1, std::memory_order_seq_cst);
    }
    ~Reading() {
      bool was_last = list_.shards_[shard_].active.fetch_sub(1, std::memory_order_seq_cst) == 1;
      if (was_last && list_.n_retired_.load(std::memory_order_seq_cst)) [[unlikely]]
        list_.free_unused();
    }
    Reading(const Reading&) = delete;

   private:
    VersionList& list_;
    size_t shard_;
  };

  uint32_t size() const { return size_.load(std::memory_order_acquire); }
  T* operator[](uint32_t i) const {
    return slots_.load(std::memory_order_acquire)->at[i].load(std::memory_order_acquire);
  }
  /// The owner of a version, for those that keep it.
  std::shared_ptr<T> shared(const T& version) const {
    auto found = std::ranges::find(owned_, &version, &std::shared_ptr<T>::get);
    return found == owned_.end() ? nullptr : *found;
  }

  /// Puts a version in front.
  T& add(std::shared_ptr<T> version) {
    uint32_t n = size();
    make_room(n + 1);
    shift_back(n);
    put(0, version.get());
    size_.store(n + 1, std::memory_order_release);
    return *owned_.emplace_back(std::move(version));
  }
  void move_to_front(uint32_t from) {
    if (from >= size()) return;
    T* hit = (*this)[from];
    shift_back(from);
    put(0, hit);
  }
  /// Drops the version that was hit longest ago.
  void drop_last() {
    uint32_t n = size();
    if (n == 0) return;
    std::shared_ptr<T> last = shared(*(*this)[n - 1]);
    std::erase(owned_, last);
    size_.store(n - 1, std::memory_order_seq_cst);
    retire({std::move(last)});
  }
  void clear() {
    size_.store(0, std::memory_order_seq_cst);
    std::vector<std::shared_ptr<void>> all(owned_.begin(), owned_.end());
    owned_.clear();
    retire(std::move(all));
  }

 private:
  struct Slots {
    explicit Slots(size_t n) : at(n) {}
    std::vector<std::atomic<T*>> at;
  };
  struct alignas(64) Shard {
    std::atomic<int64_t> active{0};
  };
  struct Retired {
    std::shared_ptr<void> object;
    uint32_t seen = 0;  ///< a bit for each shard that has been seen without calls since
  };

  void put(uint32_t i, T* version) {
    slots_.load(std::memory_order_relaxed)->at[i].store(version, std::memory_order_release);
  }
  void shift_back(uint32_t n) {
    for (uint32_t i = n; i > 0; --i) put(i, (*this)[i - 1]);
  }
  void make_room(size_t n) {
    Slots* old = slots_.load(std::memory_order_relaxed);
    if (n <= old->at.size()) return;
    auto grown = std::make_unique<Slots>(2 * old->at.size());
    for (size_t i = 0; i < old->at.size(); ++i) grown->at[i].store(old->at[i].load());
    slots_.store(grown.release(), std::memory_order_seq_cst);
    retire({std::shared_ptr<void>(old, [](void* s) { delete static_cast<Slots*>(s); })});
  }

  void retire(std::vector<std::shared_ptr<void>> objects) {
    {
      std::lock_guard lock(retired_lock_);
      for (auto& object : objects) retired_.push_back({std::move(object)});
      n_retired_.store(retired_.size(), std::memory_order_seq_cst);
    }
    free_unused();
  }
  // What is freed may call back: outside of the lock.
  void free_unused() {
    std::vector<Retired> unused;  // goes last
    std::lock_guard lock(retired_lock_);
    uint32_t idle = 0;
    for (size_t s = 0; s < n_shards; ++s)
      if (shards_[s].active.load(std::memory_order_seq_cst) == 0) idle |= 1u << s;
    auto first_unused = std::stable_partition(retired_.begin(), retired_.end(), [&](Retired& r) {
      r.seen |= idle;
      return r.seen != all_seen;
    });
    unused.assign(std::make_move_iterator(first_unused), std::make_move_iterator(retired_.end()));
    retired_.erase(first_unused, retired_.end());
    n_retired_.store(retired_.size(), std::memory_order_seq_cst);
  }

  std::atomic<Slots*> slots_;
  std::atomic<uint32_t> size_{0};
  std::vector<std::shared_ptr<T>> owned_;
  std::array<Shard, n_shards> shards_;
  std::mutex retired_lock_;
  std::vector<Retired> retired_;
  std::atomic<size_t> n_retired_{0};
};

}  // namespace tenon
