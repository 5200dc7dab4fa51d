// Memory of recordings: a range of addresses whose pages come and go and whose addresses stay.
#pragma once

#include "../gpu.h"
#include "book.h"

#include <atomic>
#include <mutex>

namespace tenon::cuda::trees {

/// Addresses on one device, reserved once, some four times its memory. Pages are mapped behind them
/// in growing chunks when they are first wanted. What a tensor holds is in the book; a recording
/// works in what is free when it is made, and may run again whenever that is free.
///
/// Cost: an allocation walks the blocks in the book; asking whether ranges are free takes the
/// logarithm of it a range. Threads: any.
class Arena {
 public:
  Arena(Gpu& gpu, size_t first_bytes);
  Arena(const Arena&) = delete;

  /// The arena that an address lies in, or null.
  static Arena* of(const Gpu& gpu, const void* address);

  /// The first room that is large enough, 512-byte aligned. Throws TN_OUT_OF_MEMORY.
  void* allocate(size_t bytes);
  /// Puts a block where it has to be: free, as are_free() has told.
  void* place(Range range);
  /// Takes a block out of the book; false where it is not there.
  bool release(const void* address);

  bool are_free(std::span<const Range> ranges) const;
  /// Sees to it that there are pages behind them.
  void map(std::span<const Range> ranges);
  /// How often pages were given back: recordings that have seen an older number map() again.
  uint64_t trims() const { return trims_.load(std::memory_order_acquire); }
  /// Waits for the device and gives back the pages that no block lies in, unless somebody has `use`.
  void trim();
  /// Held from map() until what works there is enqueued.
  std::mutex use;

  bool contains(const void* address) const {
    return range_.holds(reinterpret_cast<api::Address>(address));
  }
  size_t mapped_bytes() const;
  size_t live_bytes() const;
  /// Book::fault().
  std::string_view fault(std::span<const Range> written) const;

 private:
  struct Chunk {
    Range range;
    api::MemoryHandle memory;
    bool is_mapped;
  };
  void map_chunk(Chunk& chunk);
  void cover(api::Address end);

  Gpu& gpu_;
  Range range_;
  size_t page_bytes_ = 0;
  std::atomic<uint64_t> trims_{0};
  mutable std::mutex booking_;  // guards what follows
  Book book_;
  std::vector<Chunk> chunks_;  // by address, without gaps
};

/// While it lives, the calling thread's next allocation on the device becomes this block: a tensor
/// of the host over memory that a recording writes.
class Placement {
 public:
  Placement(Arena& arena, Range range);
  ~Placement();
  Placement(const Placement&) = delete;
  /// The block, or null where the thread places nothing.
  static void* take(size_t bytes);

 private:
  Arena& arena_;
  Range range_;
  Placement* outer_;
};

/// Gives back the pages of all arenas of a device that nothing lies in.
void trim_arenas(Gpu& gpu);

}  // namespace tenon::cuda::trees
