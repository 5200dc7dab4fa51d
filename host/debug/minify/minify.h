// The smallest graph that still fails in the same way.
//
// Problem: a backend crashes on, refuses or miscomputes a graph of hundreds of nodes; the cause is
//   one of them, or a few that it puts together.
// Model: any set of nodes is a graph: what they read from nodes outside of the set is an input, with
//   the value that it had in a run without the backend. A judge says how a graph fails; what counts
//   is the same failure as the whole graph's, not any.
// Method: delta debugging of the nodes. With chunks of half of them, then of a quarter and so on:
//   keep only a chunk, else leave one out, and take what fails alike. Each success starts again with
//   larger chunks. Then the same for outputs, bodies of control flow, given values and sizes
//   (shrink.h), again and again until nothing more can be left out.
// Cost: some log n judgements where one node is the cause, at most n^2, and some tens for the rest.
// Reference: Zeller and Hildebrandt, Simplifying and isolating failure-inducing input, 2002.
#pragma once

#include "debug/minify/search.h"

namespace tenon {

struct Minified {
  Candidate smallest;
  Failure failure;
  std::vector<NodeId> nodes;  ///< of the whole graph: those that shrinking the nodes left
  size_t tries = 0;
};

/// `on_progress` is called whenever the graph became smaller. Gives the graph as it is where it does
/// not fail. Throws what `judge` throws.
Minified minify(Candidate whole, KnownValues known, const FailureJudge& judge,
                const OnProgress& on_progress);

/// Only the nodes: which of them fail together. `failure`: that of the whole.
Minified minify_nodes(Candidate whole, KnownValues known, Failure failure,
                      const FailureJudge& judge, const OnProgress& on_progress);

}  // namespace tenon
