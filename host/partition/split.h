// Cutting a joint graph in two.
#pragma once

#include "aot/training.h"

namespace tenon::partition {

/// The forward and backward halves of a joint graph; `partitioner` is "default" or "min_cut".
/// Throws UserError for a budget or solver that does not exist.
TrainingHalves split(const Lowered& joint, const std::string& partitioner);

}  // namespace tenon::partition
