// The values and indices of a kernel as LLVM IR, each in the scope where it belongs.
#pragma once

#include "scopes.h"

#include <inductor_runtime/kernel_interface.h>
#include <lanes/memory_form.h>

#include <set>

namespace inductor {

/// The function that a kernel becomes, and what its code finds there.
struct Frame {
  llvm::Function* function = nullptr;
  llvm::Value *symbols = nullptr, *begin = nullptr, *end = nullptr;
  llvm::Value* error = nullptr;  // an i32 in memory
  std::map<Id, llvm::Value*> buffers;
  std::set<Id> written;  ///< by the kernel itself: what is loaded ahead is not there yet
};

/// How the processor of the code rounds to bf16. The instruction makes zeros of denormal numbers, so
/// that code which has to round as eager code does goes without it.
inline lanes::ToBf16 to_bf16(const CodeOptions& options) {
  bool by_instruction = options.has("avx512bf16") && !options.rounds_narrow;
  return by_instruction ? lanes::ToBf16::by_instruction : lanes::ToBf16::by_bits;
}

class ValueEmitter {
 public:
  ValueEmitter(llvm::IRBuilder<>& builder, loopir::Program& program, const CodeOptions& options,
               const Frame& frame, Scopes& scopes)
      : b_(builder),
        program_(program),
        x_(program.expressions),
        options_(options),
        frame_(frame),
        scopes_(scopes) {}

  llvm::Value* value(Id v);       // scalar, or vector where it varies
  llvm::Value* lane_value(Id v);  // as a vector where lanes are open
  llvm::Value* index(Id i);       // scalar; the lane variable counts as the block's first
  llvm::Value* lane_index(Id i);  // a vector
  llvm::Value* address(Id buffer, llvm::Value* element);
  llvm::Value* repeat(llvm::Value* v) { return b_.CreateVectorSplat(lanes_.width, v); }

  std::map<Id, llvm::Value*> folded;     // results of folds that are complete
  std::map<Id, llvm::Value*> wide_sums;  // those of sums that are there in f64, before rounding

 private:
  llvm::Value* emit_value(Id v);
  llvm::Value* emit_primitive_of(Id v, const loopir::ValueNode& n);
  llvm::Value* reciprocal(Id v);
  llvm::Value* full_mask(Id own);  // the tail's and a value's own, or null
  llvm::Value* emit_load(const loopir::ValueNode& n);
  llvm::Value* emit_one_load(const loopir::ValueNode& n);
  llvm::Value* emit_lane_scratch(const loopir::ValueNode& n);
  llvm::Value* emit_lanes(const loopir::ValueNode& n, std::optional<int64_t> step,
                          llvm::Value* mask, size_t scope);
  llvm::Value* emit_reversed(const loopir::ValueNode& n, llvm::Value* mask, size_t scope);
  llvm::Value* emit_strided(const loopir::ValueNode& n, int64_t step, llvm::Value* mask,
                            size_t scope);
  llvm::Value* emit_block_or_gather(const loopir::ValueNode& n, llvm::Value* mask, size_t scope);
  llvm::Value* emit_gather(const loopir::ValueNode& n, llvm::Value* mask, size_t scope);
  llvm::Value* emit_turned(const loopir::ValueNode& n, int64_t step, size_t scope);
  llvm::Value* mapped_index(const loopir::ValueNode& n, size_t scope);
  llvm::Value* emit_checked(const loopir::ValueNode& n);
  llvm::Value* emit_divisor(const loopir::ValueNode& n);
  void report(llvm::Value* bad, KernelError error);
  llvm::Value* emit_index(Id i);
  llvm::Value* emit_lane_index(Id i);
  llvm::Value* sum_by_scope(const loopir::IndexNode& n);

  llvm::IRBuilder<>& b_;
  loopir::Program& program_;
  loopir::Expressions& x_;
  const CodeOptions& options_;
  const Frame& frame_;
  Scopes& scopes_;
  const Lanes& lanes_ = scopes_.lanes;
};

}  // namespace inductor
