// Addition, subtraction, multiplication and absolute values of complex tensors: the arithmetic that
// storage-only dtypes have. Everything is computed in complex128.
#pragma once

#include "ops/op_table.h"

namespace tenon {

/// Whether a call has a complex tensor among its arguments.
bool has_complex_input(const CallArgs& call);
/// Dtype, shape and strides of the result. Throws UserError (unsupported) for ops other than add,
/// sub, mul and abs.
TensorMeta complex_meta(const CallArgs& call);
void run_complex(const CallArgs& call);

}  // namespace tenon
