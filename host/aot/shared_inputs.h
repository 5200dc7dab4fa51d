// Inputs that overlap in memory: which of them become one input of the functional graph.
#pragma once

#include "aot/lower.h"

#include <set>

namespace tenon {

/// Groups of inputs that overlap where the graph writes one of them. Sizes that are symbolic count
/// with their hints; the overlap of the arguments is guarded.
std::vector<SharedInput> shared_inputs(const Graph& graph);

/// From the first to behind the last element that a group shows, counted in its storage.
struct SharedExtent {
  SymInt first, size;
};
SharedExtent extent_of(const Graph& graph, const SharedInput& shared);

/// Throws where the functional graph looks by place beyond one of its inputs while another input,
/// which may lie there, is written: nothing guards what is around an input. `written`: positions.
void check_reach(const Graph& functional, const std::set<uint32_t>& written);

}  // namespace tenon
