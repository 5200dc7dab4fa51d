// Whether a compiled graph computes what it should: the rule of accuracy checks.
//
// Two tensors are the same if they have equal sizes and dtypes and all elements agree within
// |a - b| <= tol + tol * |b|, NaN being equal to NaN. Numbers that part further may still be right:
// with a run in double precision at hand, a result passes whose root mean square error is at most
// m times that of the reference plus tol/10, where m is 2, or 3 where rounding weighs more: for
// f16 and bf16, below 1000 elements, for 4-D tensors whose last two sizes are 1, for tol >= 0.02.
// A reference with NaN passes a result without, if the double run has none and is within 0.04.
#pragma once

#include <tenon/tensor.h>

#include <string>

namespace tenon {

struct SameOptions {
  double tolerance = 1e-4;
  bool ignore_non_floating = false;  ///< integers and bools are not compared
};

/// What differs, in one line; empty where the tensors are the same. `exact` is the result in
/// double precision, or undefined.
std::string difference_of(const Tensor& found, const Tensor& reference, const Tensor& exact,
                          const SameOptions& options);

}  // namespace tenon
