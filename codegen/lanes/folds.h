// The arithmetic of folds as LLVM IR, on a scalar or on a vector of lanes.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <loopir/program.h>

namespace lanes {

/// Whether its result is where an element is, not the element.
bool gives_position(loopir::Fold fold);
/// What a fold of nothing is.
llvm::Value* neutral(loopir::Fold fold, llvm::Type* type, int32_t dtype);
/// Two folded parts as one; not for those that give positions.
llvm::Value* combined(llvm::IRBuilderBase& b, loopir::Fold fold, int32_t dtype, llvm::Value* p,
                      llvm::Value* q);
/// Whether p at `at` comes before q at `best_at`: NaN beats all; of equal ones the first is taken.
llvm::Value* is_better(llvm::IRBuilderBase& b, loopir::Fold fold, int32_t dtype, llvm::Value* p,
                       llvm::Value* at, llvm::Value* q, llvm::Value* best_at);

}  // namespace lanes
