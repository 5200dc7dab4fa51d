// The host allocator.
//
// Problem: eager ops allocate one result each, mostly of the sizes of a moment ago, and free it
// soon after, perhaps on another thread. A general malloc spends as long on that as a small op
// takes, and gives large blocks back to the system, which then zeroes them again page by page.
//
// Method: the size given to deallocate() names the class of a block, so blocks carry no header.
//   up to 4 KiB   20 classes, four to a doubling from 256 bytes on. Each thread keeps a list a
//                 class (last in, first out: the block is still in the cache) and touches nothing
//                 shared. An empty list is refilled with a batch from the central list, a full one
//                 gives half away; so blocks freed on another thread find their way back. New ones
//                 are cut from slabs of 256 KiB, which stay with the process.
//   above         four classes to a doubling (at most 1/5 of a block is wasted), one central list
//                 a class. From 4 MiB on blocks are mapped on 2 MiB borders with huge pages asked
//                 for; below they come from the C library. Freed blocks are kept while the cache
//                 is no larger than the most that was ever in use, 64 MiB at least.
// Cost: 3-5 ns for a small pair on one thread; 15-40 ns for a larger pair found in the cache.
//
// Fork: the lock is taken around fork(), so the child can go on allocating. Under the address
// sanitizer every block comes from the C library, so that misuse is seen; with TENON_FENCED_MEMORY each
// ends at a forbidden page.
#include "core/tensor/allocator.h"

#include "core/error.h"
#include "core/tensor/fenced_memory.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace tenon {
namespace {

#if defined(TENON_FENCED_MEMORY)
constexpr bool fences_blocks = true;
#else
constexpr bool fences_blocks = false;
#endif

// The address sanitizer must see every block, and a fence every end.
#if defined(__SANITIZE_ADDRESS__) || defined(TENON_FENCED_MEMORY)
constexpr bool use_caches = false;
#elif defined(__has_feature)
constexpr bool use_caches = !__has_feature(address_sanitizer);
#else
constexpr bool use_caches = true;
#endif

constexpr size_t small_limit = 4096;
constexpr size_t slab_bytes = size_t{256} << 10;
constexpr size_t huge_page = size_t{2} << 20;
constexpr size_t map_limit = size_t{4} << 20;      // from here on blocks are mapped
constexpr size_t largest_block = size_t{1} << 47;  // the user half of the address space
constexpr int64_t least_cache = int64_t{64} << 20;
constexpr size_t batch_bytes = 8192;  // what moves between a thread's list and the central one

// Classes: 1 to 8 units of 64 bytes, then 10, 12, 14, 16, 20 and so on, four to a doubling.
constexpr int class_of(size_t bytes) {
  const size_t units = bytes == 0 ? 1 : (bytes + 63) / 64;
  if (units <= 4) return static_cast<int>(units) - 1;
  const int shift = std::bit_width(units - 1) - 3;
  const size_t quarters = ((units - 1) >> shift) + 1;  // 5..8
  return 4 * shift + static_cast<int>(quarters) - 1;
}
constexpr size_t size_of_class(int index) {
  if (index < 4) return 64 * static_cast<size_t>(index + 1);
  return (size_t{5} + static_cast<size_t>(index % 4)) << (index / 4 - 1) << 6;
}
static_assert(size_of_class(class_of(64)) == 64 && size_of_class(class_of(257)) == 320);
static_assert(size_of_class(class_of(4096)) == 4096 && size_of_class(class_of(4097)) == 5120);
static_assert(size_of_class(class_of(size_t{1} << 40)) == size_t{1} << 40);

constexpr int small_classes = class_of(small_limit) + 1;
constexpr int all_classes = class_of(largest_block) + 1;

constexpr uint32_t batch_of(int index) {
  return static_cast<uint32_t>(std::clamp<size_t>(batch_bytes / size_of_class(index), 2, 32));
}

// The fast path reads class and batch from tables instead of computing them.
struct SmallTables {
  std::array<uint8_t, small_limit / 64 + 1> index_of_units{};
  std::array<uint32_t, small_classes> batch{};
  std::array<uint32_t, small_classes> bytes{};
};
constexpr SmallTables make_small_tables() {
  SmallTables t;
  for (size_t units = 0; units < t.index_of_units.size(); ++units)
    t.index_of_units[units] = static_cast<uint8_t>(class_of(units * 64));
  for (int k = 0; k < small_classes; ++k) {
    t.batch[static_cast<size_t>(k)] = batch_of(k);
    t.bytes[static_cast<size_t>(k)] = static_cast<uint32_t>(size_of_class(k));
  }
  return t;
}
constexpr SmallTables tables = make_small_tables();

struct FreeBlock {
  FreeBlock* next;
  FreeBlock* next_batch = nullptr;  // the first block of a batch in a central list has these two
  int64_t batch_blocks = 0;
};

struct Bin {
  FreeBlock* head = nullptr;
  uint32_t count = 0;
};

// A thread's lists and counts. Only the owner writes; others read the two counts.
struct ThreadCache {
  std::array<Bin, small_classes> bins;
  std::atomic<int64_t> live_bytes{0};
  std::atomic<int64_t> allocations{0};
  ThreadCache* next = nullptr;

  // No other thread writes, so a plain addition does; other threads read whole values.
  void count(int64_t bytes, int64_t calls) {
    live_bytes.store(live_bytes.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
    allocations.store(allocations.load(std::memory_order_relaxed) + calls,
                      std::memory_order_relaxed);
  }
};

// Null before a thread's first block and after its end.
constinit thread_local ThreadCache* my_cache = nullptr;

class Central {
 public:
  void* refill(int index, Bin& bin);
  void flush(int index, Bin& bin, uint32_t keep);
  void flush_all(ThreadCache& cache);
  void* take_large(int index);
  void give_large(int index, void* block) noexcept;
  void trim() noexcept;
  AllocatorStats stats();
  void reset_peak();
  void add_thread(ThreadCache& cache);
  void remove_thread(ThreadCache& cache);
  void take_over(ThreadCache& cache);
  void lock() { lock_.lock(); }
  void unlock() { lock_.unlock(); }

 private:
  FreeBlock* cut_batch(int index);
  FreeBlock* pop_large(int index);
  void hand_out(int64_t bytes) {
    handed_out_ += bytes;
    peak_ = std::max(peak_, handed_out_);
  }
  int64_t live_bytes();

  std::mutex lock_;  // guards everything below
  std::array<FreeBlock*, small_classes> batches_{};
  std::array<FreeBlock*, all_classes> large_{};
  char* slab_ = nullptr;
  char* slab_end_ = nullptr;
  int64_t handed_out_ = 0;  // bytes outside the central lists
  int64_t peak_ = 0;
  int64_t most_used_ = least_cache;
  int64_t cached_ = 0;
  int64_t gone_live_ = 0, gone_allocations_ = 0;  // of threads that ended
  ThreadCache* threads_ = nullptr;
};

Central& central() {
  static Central* const instance = [] {
    auto made = std::make_unique<Central>();
    if (pthread_atfork([] { central().lock(); }, [] { central().unlock(); },
                       [] { central().unlock(); }) != 0)
      throw std::bad_alloc();
    return made.release();  // lives as long as the process: threads may free while it exits
  }();
  return *instance;
}

// Its destructor gives the thread's blocks back; touched in the slow paths only.
struct ThreadEnd {
  bool over = false;
  ~ThreadEnd() {
    over = true;
    ThreadCache* cache = std::exchange(my_cache, nullptr);
    if (cache == nullptr) return;
    central().remove_thread(*cache);
    delete cache;
  }
};
thread_local ThreadEnd thread_end;

// Runs `step` with the thread's cache, made on first need, or with one for this call only when the
// thread is ending.
template <class Step>
auto with_cache(Step step) {
  if (my_cache == nullptr && !thread_end.over) {
    auto made = std::make_unique<ThreadCache>();
    central().add_thread(*made);
    my_cache = made.release();
  }
  if (my_cache != nullptr) return step(*my_cache);
  struct Passing : ThreadCache {
    ~Passing() { central().take_over(*this); }
  } passing;
  return step(passing);
}

// ---- the system ----

void* system_take(size_t bytes) {
  if (!use_caches || bytes < map_limit) return std::aligned_alloc(host_alignment, bytes);
  // Mapped with room to move to a 2 MiB border; what sticks out on both sides is unmapped again.
  const size_t room = bytes + huge_page;
  void* mapped = ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* from = static_cast<char*>(mapped);
  const size_t before = -reinterpret_cast<uintptr_t>(from) % huge_page;
  if (before != 0) ::munmap(from, before);
  ::munmap(from + before + bytes, huge_page - before);
  ::madvise(from + before, bytes,
            MADV_HUGEPAGE);  // a wish: without huge pages it runs all the same
  return from + before;
}

void system_give(void* block, size_t bytes) noexcept {
  if (!use_caches || bytes < map_limit)
    std::free(block);
  else
    ::munmap(block, bytes);
}

[[noreturn]] void fail_allocation(size_t bytes) {
  const AllocatorStats now = allocator_stats();
  fail(ErrorCode::unsupported,
       "allocator: cannot get {} bytes of host memory; {} bytes are in use; use smaller batches or "
       "release tensors",
       bytes, now.current_bytes);
}

void* system_take_or_fail(size_t bytes) {
  void* block = system_take(bytes);
  if (block == nullptr) {
    trim_allocator();
    block = system_take(bytes);
  }
  if (block == nullptr) fail_allocation(bytes);
  return block;
}

// ---- central lists ----

FreeBlock* Central::cut_batch(int index) {
  const size_t bytes = size_of_class(index);
  const size_t wanted = batch_of(index) * bytes;
  if (static_cast<size_t>(slab_end_ - slab_) < bytes) {
    auto* fresh = static_cast<char*>(std::aligned_alloc(host_alignment, slab_bytes));
    if (fresh == nullptr) return nullptr;
    slab_ = fresh;  // the rest of the old slab, under one block, is given up
    slab_end_ = fresh + slab_bytes;
  }
  const size_t n = std::min(wanted, static_cast<size_t>(slab_end_ - slab_)) / bytes;
  FreeBlock* head = nullptr;
  for (size_t i = n; i-- > 0;) head = new (slab_ + i * bytes) FreeBlock{head};
  head->batch_blocks = static_cast<int64_t>(n);
  slab_ += n * bytes;
  return head;
}

// Fills an empty list of a thread and returns one block of it, null without memory.
void* Central::refill(int index, Bin& bin) {
  std::lock_guard guard(lock_);
  FreeBlock*& list = batches_[static_cast<size_t>(index)];
  FreeBlock* batch = list;
  if (batch != nullptr)
    list = batch->next_batch;
  else
    batch = cut_batch(index);
  if (batch == nullptr) return nullptr;
  hand_out(batch->batch_blocks * static_cast<int64_t>(size_of_class(index)));
  bin = {batch->next, static_cast<uint32_t>(batch->batch_blocks - 1)};
  return batch;
}

// Moves blocks beyond the `keep` latest of a thread's list to the central list, as one batch.
void Central::flush(int index, Bin& bin, uint32_t keep) {
  if (bin.count <= keep) return;
  FreeBlock** cut = &bin.head;
  for (uint32_t i = 0; i < keep; ++i) cut = &(*cut)->next;
  FreeBlock* batch = *cut;
  *cut = nullptr;
  const int64_t moved = bin.count - keep;
  bin.count = keep;
  std::lock_guard guard(lock_);
  FreeBlock*& list = batches_[static_cast<size_t>(index)];
  batch->next_batch = list;
  batch->batch_blocks = moved;
  list = batch;
  handed_out_ -= moved * static_cast<int64_t>(size_of_class(index));
}

void Central::flush_all(ThreadCache& cache) {
  for (int k = 0; k < small_classes; ++k) flush(k, cache.bins[static_cast<size_t>(k)], 0);
}

FreeBlock* Central::pop_large(int index) {
  std::lock_guard guard(lock_);
  const auto bytes = static_cast<int64_t>(size_of_class(index));
  FreeBlock*& list = large_[static_cast<size_t>(index)];
  FreeBlock* block = list;
  if (block == nullptr) return nullptr;
  list = block->next;
  cached_ -= bytes;
  hand_out(bytes);
  return block;
}

void* Central::take_large(int index) {
  if (FreeBlock* cached = pop_large(index)) return cached;
  const size_t bytes = size_of_class(index);
  void* block = system_take_or_fail(bytes);
  std::lock_guard guard(lock_);
  hand_out(static_cast<int64_t>(bytes));
  most_used_ = std::max(most_used_, handed_out_);
  return block;
}

void Central::give_large(int index, void* block) noexcept {
  const size_t bytes = size_of_class(index);
  {
    std::lock_guard guard(lock_);
    handed_out_ -= static_cast<int64_t>(bytes);
    if (use_caches && cached_ + static_cast<int64_t>(bytes) <= most_used_) {
      FreeBlock*& list = large_[static_cast<size_t>(index)];
      list = new (block) FreeBlock{list};
      cached_ += static_cast<int64_t>(bytes);
      return;
    }
  }
  system_give(block, bytes);
}

void Central::trim() noexcept {
  for (int index = small_classes; index < all_classes; ++index) {
    FreeBlock* list;
    {
      std::lock_guard guard(lock_);
      list = std::exchange(large_[static_cast<size_t>(index)], nullptr);
      for (FreeBlock* b = list; b != nullptr; b = b->next)
        cached_ -= static_cast<int64_t>(size_of_class(index));
    }
    while (list != nullptr) system_give(std::exchange(list, list->next), size_of_class(index));
  }
  std::lock_guard guard(lock_);
  most_used_ = std::max(least_cache, handed_out_);
}

int64_t Central::live_bytes() {
  int64_t bytes = gone_live_;
  for (ThreadCache* t = threads_; t != nullptr; t = t->next)
    bytes += t->live_bytes.load(std::memory_order_relaxed);
  return bytes;
}

AllocatorStats Central::stats() {
  std::lock_guard guard(lock_);
  AllocatorStats s{.current_bytes = live_bytes(),
                   .peak_bytes = peak_,
                   .allocations = gone_allocations_,
                   .cached_bytes = cached_};
  for (ThreadCache* t = threads_; t != nullptr; t = t->next)
    s.allocations += t->allocations.load(std::memory_order_relaxed);
  s.peak_bytes = std::max(s.peak_bytes, s.current_bytes);
  return s;
}

void Central::reset_peak() {
  std::lock_guard guard(lock_);
  peak_ = handed_out_;
}

void Central::add_thread(ThreadCache& cache) {
  std::lock_guard guard(lock_);
  cache.next = threads_;
  threads_ = &cache;
}

void Central::remove_thread(ThreadCache& cache) {
  {
    std::lock_guard guard(lock_);
    ThreadCache** at = &threads_;
    while (*at != &cache) at = &(*at)->next;
    *at = cache.next;
  }
  take_over(cache);
}

// Blocks and counts of a cache that ends.
void Central::take_over(ThreadCache& cache) {
  flush_all(cache);
  std::lock_guard guard(lock_);
  gone_live_ += cache.live_bytes.load(std::memory_order_relaxed);
  gone_allocations_ += cache.allocations.load(std::memory_order_relaxed);
}

// ---- slow paths of the two functions ----

void* take_one_fenced(size_t bytes) {
  return with_cache([bytes](ThreadCache& cache) {
    void* block = take_fenced(bytes);
    if (block == nullptr) fail_allocation(bytes);
    cache.count(static_cast<int64_t>(size_of_class(class_of(bytes))), 1);
    return block;
  });
}

void give_one_fenced(void* block, size_t bytes) noexcept {
  with_cache([&](ThreadCache& cache) {
    cache.count(-static_cast<int64_t>(size_of_class(class_of(bytes))), 0);
    give_fenced(block, bytes);
  });
}

[[gnu::noinline]] void* allocate_slowly(size_t bytes) {
  if (bytes > largest_block) fail_allocation(bytes);
  if (fences_blocks) return take_one_fenced(bytes);
  const int index = class_of(bytes);
  return with_cache([&](ThreadCache& cache) {
    void* block = use_caches && bytes <= small_limit
                      ? central().refill(index, cache.bins[static_cast<size_t>(index)])
                      : central().take_large(index);
    if (block == nullptr) fail_allocation(bytes);
    cache.count(static_cast<int64_t>(size_of_class(index)), 1);
    return block;
  });
}

[[gnu::noinline, gnu::cold]] void flush_bin(ThreadCache& cache, size_t index) noexcept {
  central().flush(static_cast<int>(index), cache.bins[index], tables.batch[index]);
}

void put_into_bin(ThreadCache& cache, size_t index, void* block) noexcept {
  Bin& bin = cache.bins[index];
  bin.head = ::new (block) FreeBlock{bin.head};
  cache.count(-static_cast<int64_t>(tables.bytes[index]), 0);
  if (++bin.count > 2 * tables.batch[index]) [[unlikely]]
    flush_bin(cache, index);
}

[[gnu::noinline]] void deallocate_slowly(void* block, size_t bytes) noexcept {
  if (fences_blocks) return give_one_fenced(block, bytes);
  const int index = class_of(bytes);
  with_cache([&](ThreadCache& cache) {
    if (use_caches && bytes <= small_limit)
      return put_into_bin(cache, static_cast<size_t>(index), block);
    cache.count(-static_cast<int64_t>(size_of_class(index)), 0);
    central().give_large(index, block);
  });
}

}  // namespace

void* allocate(size_t bytes) {
  ThreadCache* cache = my_cache;
  if (bytes > small_limit || cache == nullptr || !use_caches) [[unlikely]]
    return allocate_slowly(bytes);
  const size_t index = tables.index_of_units[(bytes + 63) / 64];
  Bin& bin = cache->bins[index];
  FreeBlock* block = bin.head;
  if (block == nullptr) [[unlikely]]
    return allocate_slowly(bytes);
  bin.head = block->next;
  --bin.count;
  cache->count(tables.bytes[index], 1);
  return block;
}

void deallocate(void* block, size_t bytes) noexcept {
  if (block == nullptr) return;
  if (bytes > small_limit || my_cache == nullptr || !use_caches) [[unlikely]]
    return deallocate_slowly(block, bytes);
  put_into_bin(*my_cache, tables.index_of_units[(bytes + 63) / 64], block);
}

AllocatorStats allocator_stats() { return central().stats(); }

void reset_allocator_peak() { central().reset_peak(); }

void trim_allocator() noexcept {
  if (my_cache != nullptr) central().flush_all(*my_cache);
  central().trim();
}

}  // namespace tenon
