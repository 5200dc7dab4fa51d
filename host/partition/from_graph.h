// The joint graph of a function as the partitioner sees it.
#pragma once

#include "aot/lower.h"
#include "partition/joint_graph.h"

#include <map>

namespace tenon::partition {

struct JointView {
  JointGraph graph;
  std::vector<JointId> of_value;  ///< by value; no_node for constants and results nobody reads
  std::vector<ValueId> value_of;  ///< by JointId; no_value for tuples
  std::map<JointId, NodeId> node_of_tuple;
};

/// Sizes that are symbols count with their examples, 4096 elements where there is none. Constants
/// are left out: both halves have them. Cost: linear. Threads: the graph is only read.
JointView view_of(const Lowered& joint);

}  // namespace tenon::partition
