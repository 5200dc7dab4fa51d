// What the loops of products and of packing ask of the numbers that they work on.
//
//   Number   of the operands              Sum      of the sums, the bias and usually the result
//   step     how many of k one step takes
//   Row      a vector of columns of the right side, `step` of k deep
//   width    from a Row to the next columns' in memory, in numbers
//   rounds   whether a result may be stored as Number
//
// Where `step` is 2, the two numbers of a column lie side by side in a panel; k is then padded
// with a zero to a whole number of steps.
#pragma once

#include "lanes.h"

namespace microkernel::MICROKERNEL_LEVEL {

/// Numbers that are summed as they are.
template <class T>
struct Plain {
  using Number = T;
  using Sum = T;
  using Row = typename LanesOf<T>::Vector;
  static constexpr int step = 1, width = LanesOf<T>::count;
  static constexpr bool rounds = false;

  /// `next` numbers behind is the next of k, where the right side is not a panel.
  static inline Row row(const T* right, int64_t /*next*/) { return load(right); }
  static inline Row spread(const T* left) { return repeat<T>(*left); }
  static inline Row multiply_add(Row sum, Row a, Row b) { return sum + a * b; }
};

}  // namespace microkernel::MICROKERNEL_LEVEL
