// Random numbers as the host draws them.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <loopir/expressions.h>

#include <vector>

namespace inductor_cuda {

/// The numbers, f64, of `n` neighbours (1, 2 or 4) from `element` on, a multiple of n. All operands
/// are i64; the draw's blocks begin at `first_block`. Normal numbers are right to a few units of the
/// last place of f64 where `is_wide`, else to 1e-10.
std::vector<llvm::Value*> drawn(llvm::IRBuilder<>& b, llvm::Value* seed, llvm::Value* first_block,
                                llvm::Value* element, unsigned n, loopir::Draw of, bool is_wide);

}  // namespace inductor_cuda
