// The graph of one op that a call on a device is compiled as.
#pragma once

#include "backend/single_op/key.h"
#include "graph/graph.h"

#include <memory>
#include <string>
#include <vector>

namespace tenon {

/// What a result slot of the call gets: nothing, one output of the graph, or a list of them.
struct ResultShape {
  enum class Kind : uint8_t { none, tensor, list } kind = Kind::none;
  uint32_t count = 0;
};

struct SingleOpGraph {
  std::shared_ptr<Graph> graph;
  std::vector<ResultShape> results;
  std::string why_not;  ///< where there is none
};

/// Records the call on fakes that have symbols for its numbers: graph.symbols are these, in order.
/// A result that goes into the first argument or into a given tensor has its layout; the given
/// tensor is the last input, for its numbers only. Throws what is wrong with the arguments.
SingleOpGraph make_single_op_graph(const CallArgs& call, const ReadCall& read,
                                   ResultPlace::Kind kind);

}  // namespace tenon
