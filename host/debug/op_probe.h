// What a backend makes of one op, found out by compiling a small graph that calls it.
#pragma once

#include "backend/compile/declined.h"
#include "graph/graph.h"
#include "ops/op_table.h"

#include <string>
#include <vector>

namespace tenon {

/// How the arguments of a call are made up: each tensor has these sizes, the first one and the
/// others a dtype; what has no default is `number`.
struct CallStyle {
  std::vector<int64_t> sizes;
  Dtype first, others;
  int64_t number = 1;
};
std::string to_text(const CallStyle& style);

/// The graph of one call of the op, or of what it decomposes into, its tensors as inputs; null where
/// the op takes no such arguments or gives numbers. Nothing runs but meta functions.
std::shared_ptr<Graph> example_graph(const OpEntry& op, const CallStyle& style,
                                     bool decomposed = false);

struct OpProbe {
  bool has_example = false;           ///< a call could be made up from the schema
  std::vector<std::string> taken_as;  ///< the ops that the backend was given
  std::vector<DeclinedGraph> declined;
  std::string error;  ///< why it could not be compiled; empty when it was
  std::string stats;  ///< TN_DESC_STATS_JSON
};

/// Loads the backend's plugin. Errors of the backend become `error`.
OpProbe probe_op(const OpEntry& op, const std::string& backend);

}  // namespace tenon
