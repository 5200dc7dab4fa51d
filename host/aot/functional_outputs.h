// What callers see of a functional graph: its results, and how to make the original outputs of
// them.
#pragma once

#include "aot/functional_values.h"
#include "graph/record.h"

#include <map>
#include <span>
#include <vector>

namespace tenon {

/// An offset that is counted in elements of one dtype, in those of another: parts of complex numbers
/// and the pairs that are seen as such count differently.
SymInt in_elements_of(Dtype dtype, SymInt offset, Dtype counted_in);

class FunctionalOutputs {
 public:
  FunctionalOutputs(const Graph& graph, const LowerOptions& options, GraphRecorder& recorder,
                    FunctionalValues& values, Lowered& out)
      : graph_(graph), options_(options), recorder_(recorder), values_(values), out_(out) {}

  /// Adds the recipes of outputs and of written inputs to `out` and returns the results of the
  /// functional graph that they refer to.
  std::vector<Tensor> describe();
  /// `value` in the layout that `seen`, a value of the original graph, had: writes may have given it
  /// another.
  Tensor laid_out_as(const GraphValue& seen, Tensor value) const;

 private:
  void find_shared_results();
  uint32_t add_result(Tensor value, const GraphValue& seen);
  OutputRecipe view_recipe(OutputRecipe::Kind kind, uint32_t index, const Alias& alias,
                           const Tensor& memory, const Tensor& start);
  OutputRecipe output_recipe(ValueId id);
  void describe_output(OutputRecipe& recipe, ValueId id);
  void add_replay(OutputRecipe& recipe, const Alias& alias, const Tensor& memory);
  ViewStep replayed(const ViewStep& step, const Tensor& view);
  std::vector<ViewStep> replayed(std::span<const ViewStep> chain, Tensor view);
  void number_detached();
  void write_inputs_back();
  void note_restrides();
  void show_symbols();

  const Graph& graph_;
  const LowerOptions& options_;
  GraphRecorder& recorder_;
  FunctionalValues& values_;
  Lowered& out_;
  std::vector<Tensor> results_;
  std::map<ValueId, uint32_t> output_of_;      // by identity: the first output that is this tensor
  std::map<size_t, uint32_t> result_of_base_;  // of bases that several outputs view
};

}  // namespace tenon
