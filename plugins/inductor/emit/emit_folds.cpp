// Folds: accumulators by lane, and their end.
//
// An accumulator is as wide as the lanes, which are several registers, so that the latency of one
// addition is hidden behind the others. Where lanes are elements of one row they are folded
// pairwise at the row's end, upper half onto lower half: an order that depends on nothing but the
// width.
#include "emitter.h"

#include <limits>

namespace inductor {

using llvm::Value;
using loopir::Fold;

namespace {

bool gives_position(Fold f) { return f == Fold::arg_min || f == Fold::arg_max; }

}  // namespace

Value* Emitter::variable_in_entry(llvm::Type* type) {
  llvm::BasicBlock& entry = function_->getEntryBlock();
  llvm::IRBuilder<> at(&entry, entry.begin());
  return at.CreateAlloca(type);
}

Value* Emitter::neutral(Fold fold, llvm::Type* type, int32_t dtype) {
  bool real = type->getScalarType()->isFloatingPointTy();
  double infinity = std::numeric_limits<double>::infinity();
  unsigned bits = type->getScalarSizeInBits();
  switch (fold) {
    case Fold::product:
      return real ? constant_of(type, 1.0) : constant_of(type, int64_t{1});
    case Fold::all:
      return llvm::Constant::getAllOnesValue(type);
    case Fold::maximum:
    case Fold::arg_max:
    case Fold::log_sum_exp:
      if (real) return constant_of(type, -infinity);
      if (dtype == TN_U8 || dtype == TN_BOOL) return llvm::Constant::getNullValue(type);
      return llvm::ConstantInt::get(type, llvm::APInt::getSignedMinValue(bits));
    case Fold::minimum:
    case Fold::arg_min:
      if (real) return constant_of(type, infinity);
      if (dtype == TN_U8 || dtype == TN_BOOL) return llvm::Constant::getAllOnesValue(type);
      return llvm::ConstantInt::get(type, llvm::APInt::getSignedMaxValue(bits));
    default:
      return llvm::Constant::getNullValue(type);
  }
}

// max + log1p(exp(min - max)), and the maximum where that is infinite.
Value* Emitter::log_sum_exp(int32_t dtype, Value* p, Value* q) {
  auto op = [&](uint16_t code, Value* l, Value* r = nullptr) {
    return emit_primitive(b, code, dtype, dtype, l, r, nullptr);
  };
  Value* high = op(TN_F_MAX, p, q);
  Value* distance = op(TN_F_SUB, op(TN_F_MIN, p, q), high);
  Value* sum = op(TN_F_ADD, high, op(TN_F_LOG1P, op(TN_F_EXP, distance)));
  Value* infinity = constant_of(high->getType(), std::numeric_limits<double>::infinity());
  Value* is_infinite = b.CreateFCmpOEQ(op(TN_F_ABS, high), infinity);
  return b.CreateSelect(is_infinite, high, sum);
}

Value* Emitter::combined(Fold fold, int32_t dtype, Value* p, Value* q) {
  if (fold == Fold::log_sum_exp) return log_sum_exp(dtype, p, q);
  uint16_t code = fold == Fold::sum       ? TN_F_ADD
                  : fold == Fold::product ? TN_F_MUL
                  : fold == Fold::minimum ? TN_F_MIN
                  : fold == Fold::maximum ? TN_F_MAX
                  : fold == Fold::any     ? TN_F_BOR
                                          : TN_F_BAND;
  return emit_primitive(b, code, dtype, dtype, p, q, nullptr);
}

// NaN beats all; of equal ones the first is taken.
Value* Emitter::is_better(Fold fold, int32_t dtype, Value* p, Value* at, Value* q, Value* best_at) {
  auto op = [&](uint16_t code, Value* l, Value* r) {
    return emit_primitive(b, code, TN_BOOL, dtype, l, r, nullptr);
  };
  Value* better = op(fold == Fold::arg_max ? TN_F_GT : TN_F_LT, p, q);
  Value* same = op(TN_F_EQ, p, q);
  if (p->getType()->getScalarType()->isFloatingPointTy()) {
    Value *p_nan = b.CreateFCmpUNO(p, p), *q_nan = b.CreateFCmpUNO(q, q);
    better = b.CreateOr(better, b.CreateAnd(p_nan, b.CreateNot(q_nan)));
    same = b.CreateOr(same, b.CreateAnd(p_nan, q_nan));
  }
  return b.CreateOr(better, b.CreateAnd(same, b.CreateICmpULT(at, best_at)));
}

void Emitter::start_fold(const loopir::Statement& s) {
  FoldState& fold = folds_[s.folded];
  fold.statement = &s;
  int32_t dtype = x.dtype_of(s.value);
  unsigned lanes = width_ ? width_ : full_width_;
  llvm::Type* type = widened(lane_type(context_, dtype), lanes);
  if (!fold.accumulator) fold.accumulator = variable_in_entry(type);
  b.CreateStore(neutral(s.fold, type, dtype), fold.accumulator);
  if (!gives_position(s.fold)) return;
  llvm::Type* place = widened(b.getInt64Ty(), lanes);
  if (!fold.position) fold.position = variable_in_entry(place);
  b.CreateStore(llvm::Constant::getAllOnesValue(place), fold.position);  // after every element
}

void Emitter::step_fold(const loopir::Statement& s) {
  FoldState& fold = folds_.at(s.folded);
  int32_t dtype = x.dtype_of(s.value);
  Value* element = lane_value(s.value);
  Value* at = gives_position(s.fold) ? lane_index(s.position) : nullptr;
  go_to(scopes_.size() - 1);
  Value* before = b.CreateLoad(element->getType(), fold.accumulator);
  if (at) {
    Value* best = b.CreateLoad(at->getType(), fold.position);
    Value* better = is_better(s.fold, dtype, element, at, before, best);
    if (mask_) better = b.CreateAnd(better, mask_);
    b.CreateStore(b.CreateSelect(better, element, before), fold.accumulator);
    b.CreateStore(b.CreateSelect(better, at, best), fold.position);
    return;
  }
  Value* after = combined(s.fold, dtype, before, element);
  if (mask_ && !lanes_are_rows_) after = b.CreateSelect(mask_, after, before);
  b.CreateStore(after, fold.accumulator);
}

// Within a block of lanes of one row, each lane takes in the one that is 1, 2, 4, ... before it;
// the last one's result goes into all lanes of the next block.
void Emitter::step_scan(const loopir::Statement& s) {
  FoldState& fold = folds_.at(s.folded);
  int32_t dtype = x.dtype_of(s.value);
  Value* sum = lane_value(s.value);
  go_to(scopes_.size() - 1);
  Value* nothing = neutral(s.fold, sum->getType(), dtype);
  for (unsigned n = 1; !lanes_are_rows_ && n < width_; n *= 2) {
    std::vector<int> from;
    for (unsigned i = 0; i < width_; ++i)
      from.push_back(static_cast<int>(i < n ? i : width_ + i - n));
    sum = combined(s.fold, dtype, b.CreateShuffleVector(nothing, sum, from), sum);
  }
  sum = combined(s.fold, dtype, b.CreateLoad(sum->getType(), fold.accumulator), sum);
  Value* next = lanes_are_rows_ ? sum : repeat(b.CreateExtractElement(sum, uint64_t{width_ - 1}));
  b.CreateStore(next, fold.accumulator);
  if (s.buffer != none) emit_store(s, sum);
}

void Emitter::finish_fold(FoldState& fold) {
  const loopir::Statement& s = *fold.statement;
  int32_t dtype = x.dtype_of(s.value);
  unsigned lanes = width_ ? width_ : full_width_;
  bool position = gives_position(s.fold);
  Value* sum = b.CreateLoad(widened(lane_type(context_, dtype), lanes), fold.accumulator);
  Value* at = position ? b.CreateLoad(widened(b.getInt64Ty(), lanes), fold.position) : nullptr;
  for (unsigned n = lanes_are_rows_ ? 1 : lanes; n > 1; n /= 2) {
    std::vector<int> low, high;
    for (unsigned i = 0; i < n / 2; ++i)
      low.push_back(static_cast<int>(i)), high.push_back(static_cast<int>(i + n / 2));
    Value *p = b.CreateShuffleVector(sum, low), *q = b.CreateShuffleVector(sum, high);
    if (!position) {
      sum = combined(s.fold, dtype, p, q);
      continue;
    }
    Value *p_at = b.CreateShuffleVector(at, low), *q_at = b.CreateShuffleVector(at, high);
    Value* better = is_better(s.fold, dtype, q, q_at, p, p_at);
    sum = b.CreateSelect(better, q, p);
    at = b.CreateSelect(better, q_at, p_at);
  }
  Value* out = position ? at : sum;
  fold.result = lanes_are_rows_ ? out : b.CreateExtractElement(out, uint64_t{0});
}

}  // namespace inductor
