// Nodes of added ops whose derivative is a function of the library that added them.
#pragma once

#include "ops/op_table.h"

namespace tenon::autograd {

/// Runs and records a call of an added op with a vjp.
void record_custom(const CallArgs& call);

}  // namespace tenon::autograd
