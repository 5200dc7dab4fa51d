// Cutting a graph into the pieces that a backend takes and those that it leaves.
#pragma once

#include "graph/dependencies.h"

#include <span>
#include <string_view>
#include <vector>

namespace tenon {

/// A backend's verdict on a node; the numbers are those of the plugin ABI.
enum class Support : uint8_t { no = 0, yes = 1, if_fused = 2 };

/// Why a node is in the piece in which it is.
enum class PlaceReason : uint8_t {
  supported,
  unsupported,
  alone,            ///< supported only beside others, of which there is none
  few,              ///< its region would be smaller than the backend wants
  shares_write,     ///< gives a view of memory that the graph writes
  computes_nothing  ///< an assertion, say: code gains nothing from it
};
/// "the backend does not support it", for messages.
std::string_view text_of(PlaceReason reason);

struct GraphPiece {
  bool is_region = false;     ///< for the backend; otherwise for its fallback
  std::vector<NodeId> nodes;  ///< ascending
};

struct GraphPieces {
  std::vector<GraphPiece> pieces;    ///< in an order in which they can run
  std::vector<PlaceReason> reasons;  ///< by node
};

/// Every node is in one piece, and every region is convex: no path leaves it and comes back. There
/// are as few regions as the verdicts allow, so that no two could be one. Deterministic. A graph
/// that is supported as a whole is one region whatever else is asked.
GraphPieces cut_into_regions(const Graph& graph, const Dependencies& dependencies,
                             std::span<const Support> verdicts, size_t min_region_ops);

}  // namespace tenon
