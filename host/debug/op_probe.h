// What a backend makes of one op, found out by compiling a small graph that calls it.
#pragma once

#include "backend/compile/declined.h"
#include "ops/op_table.h"

#include <string>
#include <vector>

namespace tenon {

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
