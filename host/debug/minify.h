// The smallest graph that still fails in the same way.
//
// Problem: a backend crashes on, refuses or miscomputes a graph of hundreds of nodes; the cause is
//   one of them, or a few that it puts together.
// Model: any set of nodes is a graph: what they read from nodes outside of the set is an input, with
//   made-up values. A judge says how a graph fails; what counts is the same failure as the whole
//   graph's, not any.
// Method: delta debugging. With chunks of half the nodes, then of a quarter and so on: keep only a
//   chunk, else leave one out, and take what fails alike. Each success starts again with larger
//   chunks. At the end no single node can be left out.
// Cost: some log n judgements where one node is the cause, at most n^2.
// Reference: Zeller and Hildebrandt, Simplifying and isolating failure-inducing input, 2002.
#pragma once

#include "graph/graph.h"

#include <functional>
#include <memory>
#include <string>

namespace tenon {

struct Failure {
  enum class Kind : uint8_t { none, crash, hang, error, wrong };
  Kind kind = Kind::none;
  std::string text;  ///< for people: the signal, the message, the difference

  explicit operator bool() const { return kind != Kind::none; }
};

/// Whether both are the same: the kind, and of errors the message without numbers, names of values
/// and what stands in front of its first ": ".
bool is_same(const Failure& a, const Failure& b);

using FailureJudge = std::function<Failure(const Graph& graph)>;

struct Minified {
  std::shared_ptr<const Graph> graph;
  Failure failure;
  size_t tries = 0;
};

/// `on_progress(nodes, tries)` is called whenever the graph became smaller. Returns the graph as it
/// is where it does not fail. Throws what `judge` throws for the whole graph.
Minified minify(std::shared_ptr<const Graph> graph, const FailureJudge& judge,
                const std::function<void(size_t nodes, size_t tries)>& on_progress);

}  // namespace tenon
