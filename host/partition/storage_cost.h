// What saving costs where memory is counted once, however many tensors show it: flag
// compiler.partition_cost = "storage".
//
// Threads: plain data.
#pragma once

#include "partition/facts.h"

#include <vector>

namespace tenon::partition {

/// Storages with a price. Those of inputs and of results of the forward are free: they live anyway.
struct StorageCosts {
  static constexpr uint32_t free = ~0u;

  std::vector<uint32_t> of_node;  ///< by id: a position in `prices`, or free
  std::vector<int64_t> prices;    ///< the bytes of the largest tensor over it, scaled
};
StorageCosts find_storage_costs(const WorkGraph& graph);

/// What saving the node costs besides its storage: little, so that of equal memory fewer values are
/// kept.
int64_t weight_beside_storage(const WorkGraph& graph, const CutFacts& facts,
                              const PartitionOptions& options, JointId id);

/// Bytes that stay alive for these values, each storage once, free ones not at all.
int64_t bytes_by_storage(const WorkGraph& graph, std::span<const JointId> saved);

}  // namespace tenon::partition
