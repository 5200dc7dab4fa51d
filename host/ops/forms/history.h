// The op that changes what a tensor is to the tape, and none of its elements.
#pragma once

#include "ops/op_ids.h"
#include "ops/op_table.h"

namespace tenon {

/// Whether the op makes its argument a leaf that needs no gradient: detach_. It counts as no write.
inline bool forgets_history(const OpEntry& op) { return op.id == OpId::aten_detach__default; }
/// What it does to its argument, and to what that stands for.
void forget_history(const Tensor& self);

}  // namespace tenon
