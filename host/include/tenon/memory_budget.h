// SPDX-License-Identifier: Apache-2.0
// A budget of activation memory for one function, in place of the flag
// functorch.activation_memory_budget.
//
//     auto f = tenon::compile([](const Tensor& x, const Tensor& w) {
//       tenon::autograd::MemoryBudget budget(0.25);  // keep a quarter, recompute the rest
//       return block(x, w);
//     });
//
// Threads: counts on the thread that made it.
#pragma once

#include <tenon/types.h>

#include <optional>

namespace tenon::autograd {

/// While one lives, operations that are recorded are under this budget. A graph that is compiled
/// for training has one: it is an error if only some of its operations are under a budget, or if
/// they are under several. Without recording nothing happens. Throws UserError unless
/// 0 <= share <= 1.
class TENON_API MemoryBudget {
 public:
  explicit MemoryBudget(double share);
  ~MemoryBudget();
  MemoryBudget(const MemoryBudget&) = delete;

 private:
  std::optional<double> before_;
};

}  // namespace tenon::autograd
