// How far two tensors are apart, and whether that is within the tolerance of their dtype.
//
// An element passes when |found - expected| <= r*|expected| + a*max(1, max|expected|), with r, a =
// 1e-4, 1e-5 for f32, 1e-9 for f64, 1e-2 for f16 and bf16; gradients have ten times that; integers
// are exact.
// NaN equals NaN, an infinity itself.
#pragma once

#include <tenon/tensor.h>

#include <string>

namespace tenon {

struct Comparison {
  bool ok = false;
  double max_abs = 0, max_rel = 0;
  double cosine = 1;    ///< of both as vectors; 1 where both are zero
  std::string problem;  ///< where they cannot be compared: dtypes, sizes, one is undefined
};

struct CompareOptions {
  bool gradient = false;
  bool any_dtype = false;  ///< dtypes may differ (a run in f64): the wider tolerance counts
  double slack = 1;        ///< times the tolerance
};

Comparison compare_tensors(const Tensor& found, const Tensor& expected,
                           const CompareOptions& options = {});

}  // namespace tenon
