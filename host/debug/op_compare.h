// Comparing the results of one op call with what PyTorch recorded.
//
// Tolerances: f64 1e-9, f32 1e-5 (1e-4 where the op sums many products) relative + 1e-6 absolute,
// f16 and bf16 two units in the last place; integers exact; NaN equals NaN. Where the op sums, the
// magnitude is that of the largest element of the result.
#pragma once

#include "debug/op_recording.h"

#include <cmath>
#include <string>
#include <vector>

namespace tenon {

/// The results of an op, owned.
struct OpResults {
  std::vector<Value> values;
  explicit OpResults(size_t n) : values(n) {}
  ~OpResults();
  OpResults(const OpResults&) = delete;
};

void run_op(const OpEntry& op, const CallValues& call, OpResults& results);

/// The results one by one: a list stands for its elements.
std::vector<Value> flattened(const OpResults& results);
/// What was recorded as the results, one by one.
std::vector<formats::JsonView> expected_of(const RecordedCall& call);
/// The tensor of a value, undefined for other values.
Tensor tensor_in(const Value& value);

/// What differs, in words; an empty text means equal.
struct OpDifference {
  std::string values;  ///< number of results, dtype, shape, elements
  std::string strides;
};
OpDifference compare_tensor(const Tensor& found, const Tensor& expected, const OpEntry& op,
                            bool with_values);
/// Gradients are sums: a difference counts against the largest element.
OpDifference compare_gradient(const Tensor& found, const Tensor& expected);

/// How far two results of one op are from the exact one, which is in double precision.
struct Rounding {
  double found = INFINITY, expected = INFINITY;
  /// Whether rounding alone explains why they differ: fused code rounds otherwise, often better.
  bool explains() const { return std::isfinite(expected) && found <= 2 * expected; }
};
Rounding rounding_of(const Tensor& found, const Tensor& expected, const Tensor& exact);

OpDifference compare_results(const OpRecording& recording, const OpEntry& op,
                             const RecordedCall& call, const OpResults& results, bool with_values);

}  // namespace tenon
