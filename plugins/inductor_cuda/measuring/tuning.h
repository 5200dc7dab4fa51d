// max_autotune: which of a library's algorithms is the fastest, by trying.
//
// Problem: a library lists its algorithms for a problem by a heuristic, which is often a few per cent
// and at times twice as slow as the best. Method: each runs on memory of its own, full of numbers
// whose sums are exact in f32 in any order, so that one that gives other bits than the first has an
// error and is out. Its time is that of some runs back to back between two events, the least of two
// rounds; they are enqueued behind copies that take longer than the host takes to enqueue them.
// Another than the first has to be 3 % faster. The choice is kept: for this process, and in the
// host's cache under the device, the driver and the problem. Cost: some milliseconds for each
// algorithm, `limit_ms` at most for a problem, in which the first ones are tried.
#pragma once

#include "../machine.h"

#include <functional>
#include <span>
#include <string>

namespace inductor_cuda {

/// Memory that the algorithms of a problem work on.
struct TrialMemory {
  int64_t bytes = 0;
  int32_t dtype = TN_F32;
  bool is_result = false;
};

/// Threads: one at a time.
class Tuning {
 public:
  Tuning(tn_ctx* ctx, const Device& device, int64_t limit_ms)
      : ctx_(ctx), device_(device), limit_ms_(limit_ms) {}

  /// Enqueues algorithm `which` over the addresses of the memory, in its order, on a stream of the
  /// driver's, whose device is the thread's; false where it fails.
  using Run = std::function<bool(size_t which, std::span<void* const> addresses, void* stream)>;
  /// The number of the fastest of `count` algorithms. `problem` says all that decides about them.
  size_t fastest(const std::string& problem, std::span<const TrialMemory> memory, size_t count,
                 const Run& run) const;

 private:
  size_t tried(std::span<const TrialMemory> memory, size_t count, const Run& run) const;

  tn_ctx* ctx_;
  Device device_;
  int64_t limit_ms_;
};

}  // namespace inductor_cuda
