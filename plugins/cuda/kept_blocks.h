// Small pieces of memory that a stream has done with, for its next ones.
//
// Problem: the driver takes 0.75 us for an allocation and its release, whatever the size, of the 5 us
// that an op on few elements may take. Method: what is released in the order of a stream may serve
// that stream's next allocation of the size at once, since what reads it comes before what writes it.
// Cost: up to 64 KiB are kept, eight pieces of each size, 2 MiB in all; memory of others is the
// driver's alone.
#pragma once

#include "api/driver.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace tenon::cuda {

/// Of one stream. Threads: any.
class KeptBlocks {
 public:
  /// What is allocated for so many bytes.
  static size_t rounded(size_t bytes) { return (bytes + granule - 1) / granule * granule; }
  /// 0 where there is none.
  api::Address take(size_t bytes) {
    const size_t size = rounded(bytes);
    if (size == 0 || size > most_bytes) return 0;
    std::lock_guard lock(guarding_);
    Size& own = sizes_[size / granule - 1];
    if (own.count == 0) return 0;
    bytes_ -= size;
    return own.blocks[--own.count];
  }
  /// Whether it is kept.
  bool keep(api::Address block, size_t bytes) {
    const size_t size = rounded(bytes);
    if (size == 0 || size > most_bytes) return false;
    std::lock_guard lock(guarding_);
    Size& own = sizes_[size / granule - 1];
    if (own.count == own.blocks.size() || bytes_ + size > most_kept) return false;
    bytes_ += size;
    own.blocks[own.count++] = block;
    return true;
  }
  size_t bytes() {
    std::lock_guard lock(guarding_);
    return bytes_;
  }
  /// Gives all of them to `free`, which may throw: the rest is kept.
  template <class F>
  void drain(F&& free) {
    std::lock_guard lock(guarding_);
    for (size_t i = 0; i < sizes_.size(); ++i)
      while (sizes_[i].count > 0) {
        free(sizes_[i].blocks[sizes_[i].count - 1]);
        --sizes_[i].count;
        bytes_ -= (i + 1) * granule;
      }
  }

 private:
  static constexpr size_t granule = 512, most_bytes = size_t{64} << 10, most_kept = size_t{2} << 20;
  static constexpr size_t most_of_size = 8;
  struct Size {
    uint32_t count = 0;
    std::array<api::Address, most_of_size> blocks;
  };

  std::mutex guarding_;  // guards what follows
  size_t bytes_ = 0;
  std::array<Size, most_bytes / granule> sizes_;
};

}  // namespace tenon::cuda
