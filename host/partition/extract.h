// One half of a joint graph: the calls that lead from given values to given results.
//
// Threads: pure functions.
#pragma once

#include "partition/work_graph.h"

namespace tenon::partition {

enum class Half : uint8_t { forward, backward };

struct ExtractedHalf {
  std::vector<JointId> calls;    ///< in the order of the graph, only what is needed
  std::vector<JointId> outputs;  ///< the results, where a write to an input stands for the input
  std::vector<char> used;        ///< by id: read by one of the calls, or a result
};

/// Throws InternalError if a result cannot be computed from `inputs`.
ExtractedHalf extract(const WorkGraph& graph, std::span<const JointId> inputs,
                      std::span<const JointId> outputs, Half half);

/// Splits the graph at the saved values: fills the saved lists, the calls of both halves, outputs
/// and what is recomputed. Saved values that the backward does not read are dropped, those that
/// name the symbols of backward arguments added. `reorder` puts the backward into the order of the
/// gradients.
void split_at(const WorkGraph& graph, std::span<const JointId> saved, bool reorder,
              Partition& partition);

/// The backward in the order in which gradients arrive: nothing runs before the first use of a
/// tangent unless it is needed there, and recomputation runs right before its use.
std::vector<JointId> order_of_gradients(const WorkGraph& graph, const std::vector<JointId>& calls,
                                        std::span<const JointId> results);

}  // namespace tenon::partition
