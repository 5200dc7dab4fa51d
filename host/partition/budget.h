// Choosing saved values under a memory budget.
//
// Threads: pure functions; with visualize_pareto, files are written.
#pragma once

#include "partition/min_cut.h"

namespace tenon::partition {

/// Throws UserError unless the budget, the solver and the estimator of the options are valid.
void check_budget(const PartitionOptions& options);

/// The values to save. `n_cuts` counts the minimum cuts that were computed for it.
CutResult choose_saved(const WorkGraph& graph, const CutFacts& facts,
                       const PartitionOptions& options, uint32_t& n_cuts);

}  // namespace tenon::partition
