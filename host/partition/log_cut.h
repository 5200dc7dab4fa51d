// What the partitioner saw and decided, as log lines of the component "partition".
//
// Threads: as report::log.
#pragma once

#include "partition/solvers/knapsack.h"
#include "partition/work_graph.h"

namespace tenon::partition {

/// Ops outside of the allowlist, saved values by size, `# remat/fw/bw: a/b/c`, recomputed ops.
void log_cut(const WorkGraph& graph, const Partition& partition);

/// The nodes of a graph, one a line, for the report of a cut that failed.
std::string text_of(const WorkGraph& graph);

/// One line of JSON: candidates, memories, runtimes, which are kept.
void log_candidates(const WorkGraph& graph, const std::vector<JointId>& candidates,
                    const std::vector<KnapsackItem>& items, const std::vector<uint32_t>& kept,
                    double budget);

}  // namespace tenon::partition
