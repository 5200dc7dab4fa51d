// Recording a graph into the recording of this thread.
#pragma once

#include "core/function_ref.h"
#include "graph/graph.h"

#include <span>
#include <vector>

namespace tenon {

/// Calls the op of a node with what `argument` has for a value and `here` for a symbolic number. Gives
/// its results one by one, those of a list too; tensors are the caller's.
std::vector<Value> call_node(const Node& node, FunctionRef<Value(ValueId)> argument,
                             FunctionRef<Number(Number)> here);

/// Whether record_graph() can: there is no control flow, nothing random, no number that only the run
/// knows, and no number that is not an integer.
bool can_record(const Graph& graph);

/// Calls the ops of the graph one after the other under the recorder of this thread, on fakes:
/// `inputs` has one for each input of the graph (undefined for numbers), `symbols` what stands for
/// each of graph.symbols. Constants become those of the recording. Gives the outputs.
std::vector<Tensor> record_graph(const Graph& graph, std::span<const Tensor> inputs,
                                 std::span<const SymInt> symbols);

}  // namespace tenon
