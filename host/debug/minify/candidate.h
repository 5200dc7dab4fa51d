// A graph that may fail, with the inputs that it fails on.
#pragma once

#include "graph/extract.h"
#include "graph/graph.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

struct Candidate {
  std::shared_ptr<const Graph> graph;
  std::vector<Tensor> inputs;  ///< one for each input of the graph; undefined: made up

  bool has_values() const;
};

/// What values of a graph were in a run, by id; undefined where nobody knows.
using KnownValues = std::vector<Tensor>;

/// Cuts candidates out of one.
class CandidateCutter {
 public:
  explicit CandidateCutter(Candidate whole, KnownValues known = {});
  /// The nodes, ascending, with these outputs of theirs or of the whole. Inputs that nobody reads
  /// are gone; what the nodes read of others are inputs. Nothing where that is not a graph: a body
  /// that reads what is outside.
  std::optional<Candidate> cut(std::span<const NodeId> nodes, std::span<const ValueId> outputs);
  /// The same with the outputs that no node of the set reads, and those of the whole.
  std::optional<Candidate> cut(std::span<const NodeId> nodes);
  const Candidate& whole() const { return whole_; }

 private:
  Candidate whole_;
  KnownValues known_;
  Extractor extractor_;
};

/// Without inputs that nobody reads, and without nodes of no effect.
std::optional<Candidate> tidied(const Candidate& candidate);

/// The graph as text that is read back as it is.
std::string whole_text(const Graph& graph);
/// A copy with symbols of its own: what is asked of them tells the original nothing.
std::shared_ptr<Graph> independent_copy(const Graph& graph);
/// Writes graph.tng and, where inputs are given, inputs.safetensors with `in.N`; removes an old one.
void write_candidate(const Candidate& candidate, const std::string& folder);

}  // namespace tenon
