// One minimum cut of a joint graph under a set of rules.
//
// Threads: pure functions.
#pragma once

#include "partition/recompute_rules.h"

namespace tenon::partition {

struct CutResult {
  std::vector<JointId> saved;  ///< in the order of the graph
  std::vector<Ban> banned;
  std::vector<int64_t> weights;  ///< by id
  int64_t value = 0;
};

/// The values of least total weight that separate the backward from the banned calls; of several
/// such sets the one nearest to the backward. Throws InternalError, with the path that cannot be
/// cut, if there is none.
CutResult solve_min_cut(const WorkGraph& graph, const CutFacts& facts,
                        const PartitionOptions& options, const BanRules& rules,
                        const std::vector<char>& may_recompute);

}  // namespace tenon::partition
