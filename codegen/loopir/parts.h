// Folds of much into little, cut into parts so that there is work for all who compute.
#pragma once

#include "lowering.h"

namespace loopir {

/// A fold whose dimension is cut: the parts are folded, then their results.
struct Parts {
  Id part = none;   // which part: a variable of a known extent
  Ids reduced;      // variables within it
  Id value = none;  // over those
};

/// A fixed number of parts, whatever runs them, of a dimension that they divide; nothing where the
/// fold has enough rows or is short. `sizes`: of the results.
std::optional<Parts> equal_parts(Lowering& to, const Ids& reduced, const Ids& sizes, Id value);

/// As many as make `options.fold_blocks` blocks of threads, the last ones being shorter or empty.
/// Sizes need not be known: those seen while tracing decide.
std::optional<Parts> parts_for_blocks(Lowering& to, const Ids& reduced, const Ids& sizes, Id value);

}  // namespace loopir
