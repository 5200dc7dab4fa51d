// Ops over lists of tensors as calls of one op a tensor.
#pragma once

#include "ops/op_table.h"

namespace tenon {

/// Runs aten._foreach_<name> as <name> on each tensor of its lists: of lists of tensors and numbers
/// the i-th one, anything else as it is. Results are a list; in-place forms give nothing. Throws
/// UserError where lists are empty or of different lengths.
void run_on_each(const CallArgs& call);

}  // namespace tenon
