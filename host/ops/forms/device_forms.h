// Calls that devices run as calls of other ops, where the CPU has a kernel of the op itself.
#pragma once

#include "ops/op_table.h"

namespace tenon {

/// Runs a call whose tensors lie on a device as others of the device: an index by a mask as one by
/// the positions of its true elements, the conjugate of complex numbers as two copies of their
/// parts. False where the call is none of these.
bool run_as_others(const CallArgs& call);

}  // namespace tenon
