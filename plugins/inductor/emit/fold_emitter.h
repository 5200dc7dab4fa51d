// The folds of a kernel as LLVM IR.
#pragma once

#include "value_emitter.h"

#include <loopir/kernel.h>

namespace inductor {

class FoldEmitter {
 public:
  FoldEmitter(llvm::IRBuilder<>& builder, const loopir::Program& program, llvm::Function& function,
              Scopes& scopes, ValueEmitter& values)
      : b_(builder),
        x_(program.expressions),
        function_(function),
        scopes_(scopes),
        values_(values) {}

  /// Whether its rounding errors grow with the number of steps: a sum in f32.
  bool is_rounded(const loopir::Statement& s) const;
  /// Before the loops of its stage, for each element in them, and behind them. `in_blocks`: what
  /// has been folded so far goes into a wider sum with each end_block().
  void start(const loopir::Statement& s, bool in_blocks, bool may_end_wide);
  void step(const loopir::Statement& s);
  void end_block(const loopir::Statement& s);
  llvm::Value* finish(const loopir::Statement& s);
  /// The step of a running fold: the fold of all elements up to this one.
  llvm::Value* step_scan(const loopir::Statement& s);

 private:
  struct State {
    bool ends_wide = false;
    llvm::Value *accumulator = nullptr, *position = nullptr;  // in memory
    llvm::Value* whole = nullptr;                             // of blocks, in f64; or null
  };
  llvm::Value* sum_of_blocks(const State& fold);
  llvm::Value* variable_in_entry(llvm::Type* type);

  llvm::IRBuilder<>& b_;
  const loopir::Expressions& x_;
  llvm::Function& function_;
  Scopes& scopes_;
  ValueEmitter& values_;
  const Lanes& lanes_ = scopes_.lanes;
  std::map<Id, State> states_;
};

}  // namespace inductor
