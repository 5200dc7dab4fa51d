// A graph whose call has failed: what may run of it once more.
#pragma once

#include <tenon/tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

class Graph;

/// Takes out the writes to what outlives the graph: those before the failure are done, no other is to be.
/// Who reads what such a write gives back reads what it has written to. Gives which nodes that were.
std::vector<bool> leave_out_writes(Graph& graph);

/// How many of the first `most` operations of the body come before the one that has failed; `most`, where
/// none of them fails, or where nobody can say. Runs them again, for these inputs, and leaves nothing
/// changed.
uint32_t operations_before_failure(const Graph& graph, uint32_t most,
                                   std::span<detail::TensorHead*> inputs,
                                   std::span<const int64_t> symbols);

}  // namespace tenon
