// The `.out` form of every functional op, derived when it is first asked for.
#pragma once

#include "ops/op_table.h"

namespace tenon {

/// The functional overload that `name.out` or `name.x_out` is the out form of; empty when the name
/// is none.
std::vector<std::string> functional_names(std::string_view out_name);

/// Runs the functional op and stores its results in the out arguments: an empty one takes the
/// result's shape, any other must have it. Throws UserError where the dtype cannot be cast.
void run_out_form(const CallArgs& call);

}  // namespace tenon
