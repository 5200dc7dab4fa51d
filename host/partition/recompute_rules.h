// Which calls of the forward are not computed again in the backward, and why.
//
// Threads: pure functions.
#pragma once

#include "partition/facts.h"

namespace tenon::partition {

/// Which of the rules are in force for one cut.
struct BanRules {
  bool not_in_allowlist = true;  ///< off: the denylist of random and compute-intensive ops
  bool materialized_backward = true;
  bool reductions = true;
  bool used_far_apart = true;
  bool long_fusible_chains = true;

  static BanRules of(const PartitionOptions& options);
};

/// The nodes that the cut must keep out of the backward, in the order of banning.
/// `may_recompute`, by id, are exempt: a budget chose them. Empty: none.
std::vector<Ban> find_bans(const WorkGraph& graph, const CutFacts& facts,
                           const PartitionOptions& options, const BanRules& rules,
                           const std::vector<char>& may_recompute);

}  // namespace tenon::partition
