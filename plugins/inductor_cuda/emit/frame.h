// What the code of one kernel finds in its function.
#pragma once

#include "inductor_cuda/form.h"
#include "thread_target.h"

#include <map>

namespace inductor_cuda {

/// How numbers are computed.
struct Numerics {
  bool contracts = true;       // a product and a sum may be one instruction
  bool rounds_narrow = false;  // bf16 and f16 values also where they stay in registers
};

struct Frame {
  llvm::IRBuilder<>& b;
  ThreadTarget& target;
  loopir::Program& program;
  const KernelPlan& plan;
  Numerics numerics;
  llvm::Function* function = nullptr;
  std::map<Id, llvm::Value*> buffers;             // pointers
  std::map<Id, llvm::Value*> host_numbers;        // elements as i64
  std::map<uint32_t, llvm::Value*> numbers;       // by place in the table, as i64
  llvm::Value* scratch = nullptr;                 // rows of the kernel's own, in global memory
  llvm::Value *unit = nullptr, *units = nullptr;  // whose rows those are, of how many
  llvm::Value* n_units = nullptr;                 // where the code is told
  llvm::Value* first_block = nullptr;             // of the launch's, where that does others, too
  llvm::Value* folds = nullptr;                   // shared memory of reductions
  llvm::Value* flag = nullptr;                    // what a check writes to
  llvm::Value* position_check = nullptr;
  llvm::Value* divisor_check = nullptr;

  llvm::Type* index_type() { return b.getIntNTy(plan.form.index_bits); }
  llvm::Value* number(int64_t n) {
    return llvm::ConstantInt::get(index_type(), static_cast<uint64_t>(n), true);
  }
  /// A new block of the function, behind the others.
  llvm::BasicBlock* block(const char* name) {
    return llvm::BasicBlock::Create(b.getContext(), name, function);
  }
  /// A variable, which a pass makes a register.
  llvm::Value* variable(llvm::Type* type) {
    llvm::BasicBlock& entry = function->getEntryBlock();
    return llvm::IRBuilder<>(&entry, entry.begin()).CreateAlloca(type);
  }
};

/// Runs `body` where `condition` holds; the builder stands behind it.
template <class F>
void emit_if(Frame& f, llvm::Value* condition, F&& body) {
  llvm::BasicBlock *inside = f.block("then"), *after = f.block("end");
  f.b.CreateCondBr(condition, inside, after);
  f.b.SetInsertPoint(inside);
  body();
  f.b.CreateBr(after);
  f.b.SetInsertPoint(after);
}

/// Runs `body(i)` for i = from, from + step, ... below `to`.
template <class F>
void emit_loop(Frame& f, llvm::Value* from, llvm::Value* to, llvm::Value* step, F&& body) {
  llvm::BasicBlock *before = f.b.GetInsertBlock(), *inside = f.block("loop"),
                   *after = f.block("end");
  f.b.CreateCondBr(f.b.CreateICmpSLT(from, to), inside, after);
  f.b.SetInsertPoint(inside);
  llvm::PHINode* i = f.b.CreatePHI(from->getType(), 2);
  i->addIncoming(from, before);
  body(i);
  llvm::Value* next = f.b.CreateAdd(i, step);
  i->addIncoming(next, f.b.GetInsertBlock());
  f.b.CreateCondBr(f.b.CreateICmpSLT(next, to), inside, after);
  f.b.SetInsertPoint(after);
}

}  // namespace inductor_cuda
