// Flag functorch.functionalize_rng_ops: seed and offset of random ops as inputs of the graph.
#pragma once

#include "graph/artifact.h"

#include <memory>

namespace tenon {

/// A graph whose random ops take what they draw from two further inputs, the last ones: seed and
/// base offset, i64 without dimensions. Output `offset_output` is the offset behind all that was
/// drawn.
struct FunctionalRng {
  std::shared_ptr<Graph> graph;
  uint32_t offset_output = 0;
};

/// `graph` is left as it is; without random ops the result has none. The inputs are named
/// `prefix`_seed_1 and `prefix`_base_offset_1; the offset stands before the last `n_saved` outputs.
/// Throws UserError (unsupported) where an op draws inside of a sub-graph.
FunctionalRng functionalize_rng(const Graph& graph, const char* prefix, uint32_t n_saved);

/// The artifact of the original graph: reads the generator, and moves it on to where the run left
/// it. Runs of such artifacts that draw go one after the other.
std::shared_ptr<Artifact> with_generator(std::shared_ptr<Artifact> inner, uint32_t offset_output);

}  // namespace tenon
