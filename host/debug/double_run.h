// The model's results and effects in double precision, by eager ops: the measure of rounding.
#pragma once

#include "formats/pt2/pt2_import.h"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace tenon {

/// Weights and floating inputs are converted, and casts inside the graph go to f64. With `training`
/// the gradients of the first result by the parameters are computed, too.
struct DoubleRun {
  std::vector<Tensor> outputs;
  std::vector<Tensor> leaves;  ///< after the call
  std::map<std::string, Tensor> weights, gradients;
};
DoubleRun run_in_double(const formats::Pt2Program& program, std::span<const Tensor> leaves,
                        bool training = false);
/// The losses of steps of plain SGD on one batch.
Tensor losses_in_double(const formats::Pt2Program& program, std::span<const Tensor> leaves,
                        double rate, int64_t steps);
/// Outputs of a graph that was saved on its own, and its inputs after the call. With `training` they
/// have a tape, whose leaves are the inputs that need a gradient.
DoubleRun run_graph_in_double(const Graph& graph, std::span<const Tensor> inputs,
                              std::span<const int64_t> symbols, bool training = false);

}  // namespace tenon
