// Cutting a joint graph in two.
#pragma once

#include "aot/training.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::partition {

/// Where a joint graph is cut.
struct Decision {
  std::vector<NodeId> forward, backward;  ///< nodes of the joint graph, in order
  std::vector<ValueId> saved;             ///< inputs of the joint graph and results of `forward`
  /// Why each of them is saved, rather than computed again; none of a decision that was read.
  std::vector<std::string_view> reasons;
};

/// `partitioner` is "default" or "min_cut". `memory_budget` takes the place of flag
/// functorch.activation_memory_budget. Throws UserError for a budget or solver that does not exist.
Decision decide(const Lowered& joint, const std::string& partitioner,
                std::optional<double> memory_budget = {});
/// Why a decision that was read cannot be carried out: a value that is used before it is there, a
/// node that runs twice. Empty when it can.
std::string problem_of(const Lowered& joint, const Decision& decision);
/// The forward and backward halves.
TrainingHalves cut(const Lowered& joint, Decision decision);
/// Both.
TrainingHalves split(const Lowered& joint, const std::string& partitioner);

}  // namespace tenon::partition
