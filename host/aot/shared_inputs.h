// Inputs that overlap in memory: which of them become one input of the functional graph.
#pragma once

#include "aot/lower.h"

namespace tenon {

/// Groups of inputs that overlap where the graph writes one of them. Sizes that are symbolic count
/// with their hints; the overlap of the arguments is guarded.
std::vector<SharedInput> shared_inputs(const Graph& graph);

/// From the first to behind the last element that a group shows, counted in its storage.
struct SharedExtent {
  SymInt first, size;
};
SharedExtent extent_of(const Graph& graph, const SharedInput& shared);

}  // namespace tenon
