// Host memory: 64-byte aligned blocks from per-thread and central caches.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon {

/// Alignment of every block, in bytes: one cache line, one AVX-512 register.
inline constexpr size_t host_alignment = 64;

/// An uninitialised block of at least `bytes` (0 is allowed and gives a block of its own). Throws
/// UserError when the system has no such memory. Any thread.
void* allocate(size_t bytes);

/// Gives a block back; `bytes` is what allocate() was asked for. Null is allowed. Any thread, also
/// one that did not allocate it.
void deallocate(void* block, size_t bytes) noexcept;

struct AllocatorStats {
  int64_t current_bytes = 0;  ///< in use: asked for and not given back, in whole size classes
  int64_t peak_bytes = 0;     ///< largest value of `current_bytes` plus the threads' caches
  int64_t allocations = 0;    ///< calls of allocate() since the start
  int64_t cached_bytes = 0;   ///< free blocks above 4 KiB, kept for reuse
};

/// Sums over all threads; a thread that allocates meanwhile may or may not be counted.
AllocatorStats allocator_stats();
/// Makes the peak start again from what is in use now.
void reset_allocator_peak();
/// Returns cached blocks above 4 KiB to the system and this thread's small blocks to the central
/// lists.
void trim_allocator() noexcept;

/// A block that is given back at the end of its scope: scratch of kernels.
///   HostBlock scratch(n * sizeof(float));   auto* x = scratch.as<float>();
class HostBlock {
 public:
  explicit HostBlock(size_t bytes) : block_(allocate(bytes)), bytes_(bytes) {}
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;
  ~HostBlock() { deallocate(block_, bytes_); }
  void* get() const { return block_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(block_);
  }

 private:
  void* block_;
  size_t bytes_;
};

}  // namespace tenon
