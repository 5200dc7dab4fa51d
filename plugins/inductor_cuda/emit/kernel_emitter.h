// A kernel as LLVM IR: one function that each thread runs.
#pragma once

#include "frame.h"

namespace inductor_cuda {

/// Adds the function of the plan's symbol. Parameters: pointers to the plan's buffers, to scratch
/// memory where that is global, its numbers, and where it has checks the address of the flag and
/// the two checks. Throws `declined` for what has no code.
void emit_kernel(llvm::Module& module, loopir::Program& program, const KernelPlan& plan,
                 ThreadTarget& target, Numerics numerics, bool may_alias);

}  // namespace inductor_cuda
