// The function of a kernel, or of several that one launch does.
#pragma once

#include "frame.h"

#include <span>

namespace inductor_cuda {

/// Adds the function of the plan's symbol. Parameters: pointers to the plan's buffers, to scratch
/// memory where that is global, its numbers, and where it has checks the address of the flag and
/// the two checks. Throws `declined` for what has no code.
void emit_kernel(llvm::Module& module, loopir::Program& program, const KernelPlan& plan,
                 ThreadTarget& target, Numerics numerics, bool may_alias);

/// Adds a function of that name for the blocks of all plans, one plan's behind the other's. They have
/// blocks of one size, and those of one symbol are neighbours, which have their code in common.
/// Parameters: those of each plan in turn, then for each the number of its first block.
void emit_group(llvm::Module& module, loopir::Program& program,
                std::span<const KernelPlan* const> plans, const std::string& name,
                ThreadTarget& target, Numerics numerics);

}  // namespace inductor_cuda
