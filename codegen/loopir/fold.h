// What a fold does with its elements; alone, for code that includes nothing else of the IR.
#pragma once

#include <cstdint>

namespace loopir {

enum class Fold : uint8_t {
  none,
  sum,
  product,
  minimum,
  maximum,
  any,
  all,
  arg_min,
  arg_max,
  log_sum_exp
};

}  // namespace loopir
