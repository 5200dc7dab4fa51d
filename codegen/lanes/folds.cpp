// The arithmetic of folds: what they begin with, and how two parts become one.
#include "folds.h"

#include "lane_ops.h"

#include <limits>

namespace lanes {

using llvm::IRBuilderBase;
using llvm::Value;
using loopir::Fold;

namespace {

// max + log1p(exp(min - max)), and the maximum where that is infinite.
Value* log_sum_exp(IRBuilderBase& b, int32_t dtype, Value* p, Value* q) {
  auto op = [&](uint16_t code, Value* l, Value* r = nullptr) {
    return emit_primitive(b, code, dtype, dtype, l, r, nullptr);
  };
  Value* high = any_extreme(b, p, q, true);
  Value* distance = op(TN_F_SUB, any_extreme(b, p, q, false), high);
  Value* sum = op(TN_F_ADD, high, op(TN_F_LOG1P, op(TN_F_EXP, distance)));
  Value* infinity = constant_of(high->getType(), std::numeric_limits<double>::infinity());
  Value* is_infinite = b.CreateFCmpOEQ(op(TN_F_ABS, high), infinity);
  return b.CreateSelect(is_infinite, high, sum);
}

}  // namespace

bool gives_position(Fold f) { return f == Fold::arg_min || f == Fold::arg_max; }

Value* neutral(Fold fold, llvm::Type* type, int32_t dtype) {
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

Value* combined(IRBuilderBase& b, Fold fold, int32_t dtype, Value* p, Value* q) {
  if (fold == Fold::log_sum_exp) return log_sum_exp(b, dtype, p, q);
  bool is_extreme = fold == Fold::minimum || fold == Fold::maximum;
  if (is_extreme && p->getType()->getScalarType()->isFloatingPointTy())
    return any_extreme(b, p, q, fold == Fold::maximum);
  uint16_t code = fold == Fold::sum       ? TN_F_ADD
                  : fold == Fold::product ? TN_F_MUL
                  : fold == Fold::minimum ? TN_F_MIN
                  : fold == Fold::maximum ? TN_F_MAX
                  : fold == Fold::any     ? TN_F_BOR
                                          : TN_F_BAND;
  return emit_primitive(b, code, dtype, dtype, p, q, nullptr);
}

Value* is_better(IRBuilderBase& b, Fold fold, int32_t dtype, Value* p, Value* at, Value* q,
                 Value* best_at) {
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

}  // namespace lanes
