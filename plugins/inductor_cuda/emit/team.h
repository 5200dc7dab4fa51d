// Threads that share the inner points of a unit: their folded parts become one.
#pragma once

#include "value_emitter.h"

namespace inductor_cuda {

/// What has been folded, and where it is for folds that give positions (else null).
struct Part {
  llvm::Value* value = nullptr;
  llvm::Value* position = nullptr;  // i64
};
Part combined(Frame& f, const loopir::Statement& s, const Part& p, const Part& q);

/// An element of shared memory, at a multiple of its size.
void put_element(Frame& f, llvm::Value* at, llvm::Value* v);
llvm::Value* get_element(Frame& f, llvm::Value* at, llvm::Type* type);

/// Of a scan: the fold of what the threads before this one have, and of what all have.
struct Scanned {
  llvm::Value *before, *all;
};
Scanned scanned_over_block(Frame& f, const loopir::Statement& s, llvm::Value* own);

/// The fold of the parts of all threads of the block, in all threads.
Part folded_over_block(Frame& f, const loopir::Statement& s, const Part& own);
/// The same of the threads that have one column.
Part folded_over_column(Frame& f, const loopir::Statement& s, const Part& own);

}  // namespace inductor_cuda
