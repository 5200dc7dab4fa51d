// Counter-based forms of random ops: seed and offset are arguments, nothing is taken from the
// generator.
#pragma once

#include "ops/op_table.h"

namespace tenon {

/// tenon::philox_<namespace>_<name>(Tensor seed, Tensor offset, <arguments>) -> (Tensor, <results>)
/// of a random op that writes nothing: seed and offset are i64 tensors without dimensions, the
/// first result is the offset behind the numbers that were drawn. The others are those of the op
/// where the generator stands at seed and offset. Made when it is first asked for; any thread.
const OpEntry& counter_based_form(const OpEntry& op);

}  // namespace tenon
