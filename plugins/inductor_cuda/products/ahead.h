// Products whose sizes are known, planned and loaded before the first call.
//
// Problem: cuBLASLt loads a kernel when it is first launched, which takes 2 to 4 ms each under a lock
// of the driver. A training step has eight, which was half of its start from the cache on disk.
//
// Method: a thread of its own plans the distinct products in their order, then runs each algorithm
// once, while the rest of the graph is compiled or loaded. What is run is a small product like the
// planned one, on memory and a stream of the thread's own: the kernel follows from the algorithm and
// from how matrices lie, not from how large they are. Where that is not so, or where something fails,
// nobody is told: the product's own first call loads its kernel, or fails, as it would have.
#pragma once

#include "lt_plan.h"

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace inductor_cuda {

/// Threads: any. Its end waits for its thread.
class ProductsAhead {
 public:
  struct Outcome {
    std::shared_ptr<const LtPlan> plan;  // null, with the reason: the library has none
    std::string why_not;
  };

  /// Begins.
  ProductsAhead(const Device& device, const Library& library, const LtOptions& options,
                const std::vector<Problem>& problems);
  ProductsAhead(const ProductsAhead&) = delete;

  /// Of one of the problems; nothing of others. Waits for it. Throws what planning it threw, once: who
  /// asks again plans it anew.
  std::optional<Outcome> plan(const Problem& problem) const;

 private:
  struct Entry {
    Problem problem;
    std::promise<Outcome> promise = {};
    std::shared_future<Outcome> outcome = promise.get_future().share();
    mutable std::atomic<bool> is_told{false};  // what planning threw
  };
  void work();
  void load(const std::vector<Entry*>& planned);

  Device device_;
  const Library& library_;
  LtOptions options_;
  std::map<std::string, Entry> entries_;
  std::vector<Entry*> in_order_;
  std::future<void> working_;  // the last one: what it uses lives until it has ended
};

}  // namespace inductor_cuda
