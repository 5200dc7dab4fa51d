// Running formulas: broadcasting, promotion, results and the in-place form of every pointwise row.
#pragma once

#include "ops/op_table.h"

namespace tenon {

/// The kernel of every row with a formula.
void run_pointwise(const CallArgs& call);
/// Dtype, broadcast shape and memory order of the results.
void pointwise_meta(const CallArgs& call, Metas& metas);

/// `op_`: computes into self where no other operand partly overlaps it, else through a result of
/// its own; bumps the version and returns self.
void run_derived_in_place(const CallArgs& call);
/// Throws UserError unless the functional result fits self in shape and can be cast to its dtype.
void check_derived_in_place(const CallArgs& call);

}  // namespace tenon
