// Cutting a joint graph in two.
#pragma once

#include "aot/training.h"

#include <string>
#include <vector>

namespace tenon::partition {

/// Where a joint graph is cut.
struct Decision {
  std::vector<NodeId> forward, backward;  ///< nodes of the joint graph, in order
  std::vector<ValueId> saved;             ///< inputs of the joint graph and results of `forward`
};

/// `partitioner` is "default" or "min_cut". Throws UserError for a budget or solver that does not
/// exist.
Decision decide(const Lowered& joint, const std::string& partitioner);
/// The forward and backward halves.
TrainingHalves cut(const Lowered& joint, Decision decision);
/// Both.
TrainingHalves split(const Lowered& joint, const std::string& partitioner);

}  // namespace tenon::partition
