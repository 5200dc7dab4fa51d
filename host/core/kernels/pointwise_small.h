// The short way for small calls: one block, one output, no gathering.
#pragma once

#include "core/kernels/pointwise_loop.h"

namespace tenon {

/// Whether `run_small` may be tried: one output that the last step makes, few values.
bool is_small_plan(const BoundProgram& plan);

/// Runs n elements, one block at most, when operands are dense or single and their dtypes are those
/// of the program (any for a lone element). Returns false, with nothing written, when they are not.
bool run_small(const BoundProgram& plan, const Operand& out, std::span<const Operand> ins,
               std::span<const int64_t> sizes, int64_t n);

}  // namespace tenon
