// How the losses of elements become one.
#pragma once

#include "core/error.h"
#include "core/tensor/tensor_impl.h"

#include <tenon/ops/reduce.h>

namespace tenon::ops {

/// The schemas' numbers.
enum Reduction : int64_t { no_reduction = 0, mean_reduction = 1, sum_reduction = 2 };

/// Throws UserError for a number that is none of them: rows and backends would read it differently.
inline void check_reduction(int64_t reduction) {
  require(reduction >= no_reduction && reduction <= sum_reduction,
          "a loss: reduction must be 0 (none), 1 (mean) or 2 (sum), found {}", reduction);
}

inline Tensor reduced(const Tensor& loss, int64_t reduction) {
  check_reduction(reduction);
  if (reduction == mean_reduction) return mean(loss);
  return reduction == sum_reduction ? sum(loss) : loss;
}

}  // namespace tenon::ops
