// Recording a graph into the recording of this thread.
#pragma once

#include "graph/graph.h"

#include <span>
#include <vector>

namespace tenon {

/// Whether record_graph() can: there is no control flow, nothing random, no number that only the run
/// knows, and no number that is not an integer.
bool can_record(const Graph& graph);

/// Calls the ops of the graph one after the other under the recorder of this thread, on fakes:
/// `inputs` has one for each input of the graph (undefined for numbers), `symbols` what stands for
/// each of graph.symbols. Constants become those of the recording. Gives the outputs.
std::vector<Tensor> record_graph(const Graph& graph, std::span<const Tensor> inputs,
                                 std::span<const SymInt> symbols);

}  // namespace tenon
