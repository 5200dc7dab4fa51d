// The stores of a kernel as LLVM IR.
#pragma once

#include "value_emitter.h"

#include <loopir/kernel.h>

namespace inductor {

class StoreEmitter {
 public:
  StoreEmitter(llvm::IRBuilder<>& builder, loopir::Program& program, const CodeOptions& options,
               const KernelInterface& interface, Scopes& scopes, ValueEmitter& values)
      : b_(builder),
        program_(program),
        x_(program.expressions),
        options_(options),
        interface_(interface),
        scopes_(scopes),
        values_(values) {}

  /// What the statement computed goes where it says: a scalar, or a vector of lanes.
  void store(const loopir::Statement& s, llvm::Value* value);

 private:
  void store_scalar(const loopir::Statement& s, llvm::Value* value);
  void store_lane_scratch(const loopir::Statement& s, llvm::Value* value);
  void scatter(const loopir::Statement& s, llvm::Value* value);
  void store_with_gaps(const loopir::Statement& s, llvm::Value* v, int64_t step);
  void store_block(const loopir::Statement& s, llvm::Value* value);
  llvm::Value* updated(const loopir::Statement& s, llvm::Value* value, llvm::Value* before);
  bool is_streamed(Id buffer) const;
  llvm::Type* type_in(Id buffer, unsigned width) const;

  llvm::IRBuilder<>& b_;
  loopir::Program& program_;
  loopir::Expressions& x_;
  const CodeOptions& options_;
  const KernelInterface& interface_;
  Scopes& scopes_;
  ValueEmitter& values_;
  const Lanes& lanes_ = scopes_.lanes;
};

}  // namespace inductor
