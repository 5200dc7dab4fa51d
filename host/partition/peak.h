// The most memory that a partition needs at once.
#pragma once

#include "partition/partition.h"

namespace tenon::partition {

/// Bytes beyond the inputs that live at the worst moment of forward and backward, when each value
/// is freed after its last use; memory that several values share counts once. Cost: linear.
int64_t peak_bytes(const JointGraph& graph, const Partition& partition);

/// The partition under options.memory_budget, or under one of a few larger budgets where that
/// needs less at once: what is recomputed all at the beginning of the backward lives longer than if
/// it had been kept. So the peak never grows when the budget falls. With options.cost = "peak" the
/// given budget is the first of all that are tried.
Partition partition_of_least_peak(const JointGraph& graph, const PartitionOptions& options);

}  // namespace tenon::partition
