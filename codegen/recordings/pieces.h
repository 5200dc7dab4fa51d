// A graph as pieces: what the host computes first, what is recorded, what runs directly in between.
#pragma once

#include "skips.h"

#include <span>
#include <string>
#include <vector>

namespace recordings {

/// Nodes that follow each other, but for those of the host.
struct Piece {
  bool is_recorded = true;
  std::vector<uint32_t> nodes;
  /// Of recorded ones, values: what it reads of others, CPU numbers but for constants among it, and
  /// what others or the caller want of it.
  std::vector<uint32_t> inputs, outputs;
};

struct Pieces {
  std::vector<uint32_t> host_nodes;  ///< that run before all others: they need numbers only
  std::vector<Piece> list;
  std::vector<Skip> skips;  ///< of nodes that are not recorded

  size_t n_recorded() const;
};

/// Every node is in one piece, or among the host's. Recorded pieces of fewer than `min_nodes` nodes
/// are none.
Pieces divided(const tenon::plugin::graph& g, int32_t device, uint32_t min_nodes,
               const DrawsThere& draws_there);

}  // namespace recordings
