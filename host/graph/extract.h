// Cutting sets of nodes out of a graph as graphs of their own.
#pragma once

#include "graph/dependencies.h"
#include "graph/graph.h"
#include "graph/symbol_use.h"

#include <memory>
#include <span>
#include <vector>

namespace tenon {

struct Extracted {
  std::shared_ptr<Graph> graph;
  /// Values of the outer graph, by position. An input without one, no_value, is the value of an
  /// outer symbol that no other input shows.
  std::vector<ValueId> outer_inputs, outer_outputs;
  std::vector<uint32_t> outer_symbols;  ///< positions in the outer graph's symbols
};

/// Cuts pieces out of one graph. Constants that a piece reads are constants of it, with the same
/// tensors; other values from outside are inputs, in order of first use, then the symbols that
/// these do not show. Outputs are the results that somebody outside reads or that the graph puts
/// out, in order. Numbers that nodes compute cross as they are. Cost: linear in the piece. Threads:
/// one at a time.
class Extractor {
 public:
  explicit Extractor(const Graph& graph);
  /// The nodes, ascending, as a graph; they must be convex (dependencies.h).
  Extracted cut(std::span<const NodeId> nodes);
  /// The nodes, in an order in which they can run, with inputs and outputs as given. Values from
  /// outside that `inputs` lacks follow them; outputs may be values that no node of the piece
  /// makes.
  Extracted cut(std::span<const NodeId> nodes, std::span<const ValueId> inputs,
                std::span<const ValueId> outputs);

 private:
  class Piece;
  bool leaves(ValueId v) const;
  void find_groups();

  const Graph& graph_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> is_output_;        // by value
  std::vector<uint32_t> piece_of_;     // by node: the piece that it was cut out with last
  std::vector<uint32_t> known_since_;  // by value: the piece that it was mapped for last
  std::vector<ValueId> mapped_;        // by value: its id in that piece
  std::vector<uint32_t> groups_;       // by value: the alias group in every piece
  const bool tells_aliases_;           // of results
  SymbolUse symbols_;
  uint32_t n_pieces_ = 0;
};

/// One set of nodes. Throws UserError unless they are convex: no path leaves them and comes back.
Extracted extract_nodes(const Graph& graph, std::span<const NodeId> nodes);

}  // namespace tenon
