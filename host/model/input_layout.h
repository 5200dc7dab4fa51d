// Inputs in the layout that their graph promises.
//
// Generated code reads an input by the strides that stand in the graph, while a caller may pass any
// tensor of the right sizes. What lies otherwise is copied for the call, what the graph writes is
// copied back, and results that show a copy show the caller's tensor in the end.
//
//   LaidOutInputs inputs(graph, call.inputs, call.symbols, overlaps);
//   artifact.call(inputs.heads(), call.symbols, outputs);
//   inputs.write_back();
//   inputs.show_given(outputs);
#pragma once

#include "graph/graph.h"
#include "guards/overlap.h"

#include <span>
#include <utility>
#include <vector>

namespace tenon {

/// Sizes or strides with values for the graph's symbols. Throws UserError where there is none.
std::vector<int64_t> dims_with(const Graph& graph, const Dims& dims,
                               std::span<const int64_t> symbols);

/// Whether a tensor for this input has the strides that the graph promises.
bool lies_as_promised(const Graph& graph, size_t input, const detail::TensorHead& given,
                      std::span<const int64_t> symbols);

class LaidOutInputs {
 public:
  /// `inputs` as Artifact::call takes them; they must outlive this. Those in `overlaps` stay as they
  /// are: a copy would not see what is written to the other. The copies are recorded on the tape
  /// where the grad mode says so.
  LaidOutInputs(const Graph& graph, std::span<detail::TensorHead*> inputs,
                std::span<const int64_t> symbols, std::span<const Overlap> overlaps = {});
  std::span<detail::TensorHead*> heads() const { return heads_; }
  void write_back();
  /// Results that are a copy, or views of one which the given tensor has, too, become that tensor
  /// and views of it.
  void show_given(std::span<Tensor> results) const;

 private:
  void lay_out(size_t input, const std::vector<int64_t>& strides);

  const Graph& graph_;
  std::span<detail::TensorHead*> given_, heads_;
  std::vector<detail::TensorHead*> replaced_;  // empty where no copy was needed
  std::vector<std::pair<size_t, Tensor>> copies_;
};

}  // namespace tenon
