// The partition that follows the order of the graph, for graphs of every kind.
#pragma once

#include "partition/partition.h"

namespace tenon::partition {

/// default_partition() without the way out to the minimum cut.
Partition split_where_traced(const JointGraph& graph, const PartitionOptions& options);

}  // namespace tenon::partition
