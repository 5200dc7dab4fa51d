// Folds: accumulators by lane, and their end.
//
// An accumulator is as wide as the lanes, which are several registers, so that the latency of one
// addition is hidden behind the others. Where lanes are elements of one row they are folded
// pairwise at the row's end, upper half onto lower half: an order that depends on nothing but the
// width. Of many steps it is the last vector of a sum in f32 that is folded in f64: those roundings
// would be the largest, and in shorter rows the wider instructions would be felt. Where a sum is
// there in f64, its quotient is rounded once, too (wide_dividend in value_emitter.cpp).
//
// Sums in f32 of more than 32 steps are in blocks: the error of a chain of additions grows with its
// length, so after 8 or 16 steps the chain ends, its sum is added to one in f64, and the next begins
// at 0. That costs nothing that can be measured: sums wait for loads, and the exponentials of a
// softmax take longer.
#include "fold_emitter.h"

#include <lanes/folds.h>
#include <lanes/lane_ops.h>

namespace inductor {

using lanes::combined;
using lanes::gives_position;
using lanes::is_better;
using lanes::lane_type;
using lanes::neutral;
using lanes::widened;
using llvm::Value;
using loopir::Fold;

Value* FoldEmitter::variable_in_entry(llvm::Type* type) {
  llvm::BasicBlock& entry = function_.getEntryBlock();
  llvm::IRBuilder<> at(&entry, entry.begin());
  return at.CreateAlloca(type);
}

bool FoldEmitter::is_rounded(const loopir::Statement& s) const {
  int32_t dtype = x_.dtype_of(s.value);
  return s.fold == Fold::sum && !s.is_scan &&
         (dtype == TN_F32 || dtype == TN_BF16 || dtype == TN_F16);
}

// The chain of this block, in f64, and what the blocks before it gave.
Value* FoldEmitter::sum_of_blocks(const State& fold) {
  auto* of_whole = llvm::cast<llvm::AllocaInst>(fold.whole)->getAllocatedType();
  auto* of_chain = llvm::cast<llvm::AllocaInst>(fold.accumulator)->getAllocatedType();
  Value* chain = b_.CreateFPExt(b_.CreateLoad(of_chain, fold.accumulator), of_whole);
  return b_.CreateFAdd(b_.CreateLoad(of_whole, fold.whole), chain);
}

void FoldEmitter::end_block(const loopir::Statement& s) {
  State& fold = states_.at(s.folded);
  auto* of_chain = llvm::cast<llvm::AllocaInst>(fold.accumulator)->getAllocatedType();
  b_.CreateStore(sum_of_blocks(fold), fold.whole);
  b_.CreateStore(llvm::Constant::getNullValue(of_chain), fold.accumulator);
}

void FoldEmitter::start(const loopir::Statement& s, bool in_blocks, bool may_end_wide) {
  State& fold = states_[s.folded];
  fold.ends_wide = may_end_wide && is_rounded(s);
  int32_t dtype = x_.dtype_of(s.value);
  unsigned lanes = lanes_.width ? lanes_.width : lanes_.full_width;
  llvm::Type* type = widened(lane_type(b_.getContext(), dtype), lanes);
  if (!fold.accumulator) fold.accumulator = variable_in_entry(type);
  b_.CreateStore(neutral(s.fold, type, dtype), fold.accumulator);
  if (in_blocks && !fold.whole) fold.whole = variable_in_entry(widened(b_.getDoubleTy(), lanes));
  if (fold.whole)
    b_.CreateStore(llvm::Constant::getNullValue(widened(b_.getDoubleTy(), lanes)), fold.whole);
  if (!gives_position(s.fold)) return;
  llvm::Type* place = widened(b_.getInt64Ty(), lanes);
  if (!fold.position) fold.position = variable_in_entry(place);
  b_.CreateStore(llvm::Constant::getAllOnesValue(place), fold.position);  // after every element
}

void FoldEmitter::step(const loopir::Statement& s) {
  State& fold = states_.at(s.folded);
  int32_t dtype = x_.dtype_of(s.value);
  Value* element = values_.lane_value(s.value);
  Value* at = gives_position(s.fold) ? values_.lane_index(s.position) : nullptr;
  scopes_.go_to_innermost();
  Value* before = b_.CreateLoad(element->getType(), fold.accumulator);
  if (at) {
    Value* best = b_.CreateLoad(at->getType(), fold.position);
    Value* better = is_better(b_, s.fold, dtype, element, at, before, best);
    if (lanes_.mask) better = b_.CreateAnd(better, lanes_.mask);
    b_.CreateStore(b_.CreateSelect(better, element, before), fold.accumulator);
    b_.CreateStore(b_.CreateSelect(better, at, best), fold.position);
    return;
  }
  Value* after = combined(b_, s.fold, dtype, before, element);
  if (lanes_.mask && !lanes_.are_rows) after = b_.CreateSelect(lanes_.mask, after, before);
  b_.CreateStore(after, fold.accumulator);
}

// Within a block of lanes of one row, each lane takes in the one that is 1, 2, 4, ... before it;
// the last one's result goes into all lanes of the next block.
Value* FoldEmitter::step_scan(const loopir::Statement& s) {
  State& fold = states_.at(s.folded);
  int32_t dtype = x_.dtype_of(s.value);
  Value* sum = values_.lane_value(s.value);
  scopes_.go_to_innermost();
  Value* nothing = neutral(s.fold, sum->getType(), dtype);
  for (unsigned n = 1; !lanes_.are_rows && n < lanes_.width; n *= 2) {
    std::vector<int> from;
    for (unsigned i = 0; i < lanes_.width; ++i)
      from.push_back(static_cast<int>(i < n ? i : lanes_.width + i - n));
    sum = combined(b_, s.fold, dtype, b_.CreateShuffleVector(nothing, sum, from), sum);
  }
  sum = combined(b_, s.fold, dtype, b_.CreateLoad(sum->getType(), fold.accumulator), sum);
  Value* next = lanes_.are_rows
                    ? sum
                    : values_.repeat(b_.CreateExtractElement(sum, uint64_t{lanes_.width - 1}));
  b_.CreateStore(next, fold.accumulator);
  return sum;
}

Value* FoldEmitter::finish(const loopir::Statement& s) {
  State& fold = states_.at(s.folded);
  int32_t dtype = x_.dtype_of(s.value);
  constexpr unsigned lanes_of_a_vector = 16;
  unsigned lanes = lanes_.width ? lanes_.width : lanes_.full_width;
  bool position = gives_position(s.fold);
  llvm::Type* type = lane_type(b_.getContext(), dtype);
  Value* sum =
      fold.whole ? sum_of_blocks(fold) : b_.CreateLoad(widened(type, lanes), fold.accumulator);
  int32_t summed = fold.whole ? int32_t{TN_F64} : dtype;
  unsigned widens_at = fold.ends_wide && !fold.whole ? lanes_of_a_vector : 0;
  Value* at = position ? b_.CreateLoad(widened(b_.getInt64Ty(), lanes), fold.position) : nullptr;
  for (unsigned n = lanes_.are_rows ? 1 : lanes; n > 1; n /= 2) {
    if (n == widens_at) {
      sum = b_.CreateFPExt(sum, widened(b_.getDoubleTy(), n));
      summed = TN_F64;
    }
    std::vector<int> low, high;
    for (unsigned i = 0; i < n / 2; ++i)
      low.push_back(static_cast<int>(i)), high.push_back(static_cast<int>(i + n / 2));
    Value *p = b_.CreateShuffleVector(sum, low), *q = b_.CreateShuffleVector(sum, high);
    if (!position) {
      sum = combined(b_, s.fold, summed, p, q);
      continue;
    }
    Value *p_at = b_.CreateShuffleVector(at, low), *q_at = b_.CreateShuffleVector(at, high);
    Value* better = is_better(b_, s.fold, dtype, q, q_at, p, p_at);
    sum = b_.CreateSelect(better, q, p);
    at = b_.CreateSelect(better, q_at, p_at);
  }
  Value* out = position ? at : sum;
  if (!lanes_.are_rows) out = b_.CreateExtractElement(out, uint64_t{0});
  if (summed != dtype) {
    values_.wide_sums[s.folded] = out;
    out = b_.CreateFPTrunc(out, out->getType()->getWithNewType(type));
  }
  return values_.folded[s.folded] = out;
}

}  // namespace inductor
