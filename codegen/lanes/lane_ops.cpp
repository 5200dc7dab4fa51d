// Scalar primitives on lanes: arithmetic, comparisons, casts; functions come from vector_math.
#include "lane_ops.h"

#include <loopir/expressions.h>
#include <tenon/plugin.hpp>

#include <llvm/IR/Module.h>

#include <cmath>
#include <string>

namespace lanes {

using llvm::IRBuilderBase;
using llvm::Value;

namespace {

bool is_float(int32_t dtype) {
  return dtype == TN_F32 || dtype == TN_F64 || dtype == TN_F16 || dtype == TN_BF16;
}
bool is_signed(int32_t dtype) { return dtype != TN_U8 && dtype != TN_BOOL; }

/// A scalar function of two operands, lane by lane.
Value* call_lanes(IRBuilderBase& b, const char* name, llvm::Type* type, Value* x, Value* y) {
  llvm::Module* m = b.GetInsertBlock()->getModule();
  auto callee = m->getOrInsertFunction(name, llvm::FunctionType::get(type, {type, type}, false));
  auto one = [&](Value* p, Value* q) -> Value* { return b.CreateCall(callee, {p, q}); };
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (!vector) return one(x, y);
  Value* out = llvm::PoisonValue::get(widened(type, vector->getNumElements()));
  for (unsigned i = 0; i < vector->getNumElements(); ++i)
    out = b.CreateInsertElement(out,
                                one(b.CreateExtractElement(x, i), b.CreateExtractElement(y, i)), i);
  return out;
}

Value* zero_like(Value* x) { return llvm::Constant::getNullValue(x->getType()); }
Value* number_like(Value* x, double number) { return llvm::ConstantFP::get(x->getType(), number); }

// A constant that no number is equal to but in all its bits.
bool is_nonzero_constant(Value* x) {
  auto* constant = llvm::dyn_cast<llvm::Constant>(x);
  if (constant && constant->getType()->isVectorTy()) constant = constant->getSplatValue();
  auto* number = llvm::dyn_cast_or_null<llvm::ConstantFP>(constant);
  return number && !number->isZero() && !number->isNaN();
}

/// NaN in either operand gives NaN, equal operands the first one: y < x ? y : x.
Value* real_extreme(IRBuilderBase& b, Value* x, Value* y, bool maximum) {
  if (is_nonzero_constant(x) || is_nonzero_constant(y)) return any_extreme(b, x, y, maximum);
  Value* wins = maximum ? b.CreateFCmpOGT(y, x) : b.CreateFCmpOLT(y, x);
  Value* out = b.CreateSelect(wins, y, x);
  return b.CreateSelect(b.CreateFCmpUNO(y, y), y, out);
}

Value* fmod_by_calls(IRBuilderBase& b, Value* x, Value* y) {
  llvm::Type* wide = x->getType()->getWithNewType(b.getDoubleTy());
  Value* out = call_lanes(b, "tenon_real_fmod", b.getDoubleTy(), b.CreateFPExt(x, wide),
                          b.CreateFPExt(y, wide));
  return b.CreateFPTrunc(out, x->getType());
}

/// fmod of lanes whose quotients have at most 22 bits: in double their products with the divisor are
/// exact, and so is the quotient's whole part, since no quotient of two floats that is not whole
/// comes nearer to a whole number than its rounding.
Value* fmod_of_short_quotients(IRBuilderBase& b, Value* x, Value* y) {
  llvm::Type* wide = x->getType()->getWithNewType(b.getDoubleTy());
  Value *p = b.CreateFPExt(x, wide), *q = b.CreateFPExt(y, wide);
  Value* whole = b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, b.CreateFDiv(p, q));
  Value* rest = b.CreateFPTrunc(b.CreateFSub(p, b.CreateFMul(whole, q)), x->getType());
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, rest, x);
}

Value* has_short_quotients(IRBuilderBase& b, Value* x, Value* y) {
  Value* size = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, y);
  Value* is_finite = b.CreateFCmpOLT(size, number_like(y, HUGE_VAL));
  Value* most = b.CreateFMul(size, number_like(y, 0x1p22));
  Value* is_short = b.CreateFCmpOLT(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x), most);
  return b.CreateAndReduce(b.CreateAnd(is_finite, is_short));
}

/// A function of the module that takes the fast form where all lanes allow it, as most do.
llvm::Function* fmod_function(IRBuilderBase& b, llvm::Type* type) {
  llvm::Function* caller = b.GetInsertBlock()->getParent();
  llvm::Module* module = caller->getParent();
  auto* vector = llvm::cast<llvm::FixedVectorType>(type);
  std::string name = "tenon_fmod_lanes_" + std::to_string(vector->getNumElements());
  if (llvm::Function* known = module->getFunction(name)) return known;
  auto* made = llvm::Function::Create(llvm::FunctionType::get(type, {type, type}, false),
                                      llvm::Function::InternalLinkage, name, module);
  llvm::AttrBuilder as_caller(b.getContext(), caller->getAttributes().getFnAttrs());
  made->addFnAttrs(as_caller);
  llvm::IRBuilder<> in(llvm::BasicBlock::Create(b.getContext(), "entry", made));
  auto* fast = llvm::BasicBlock::Create(b.getContext(), "fast", made);
  auto* slow = llvm::BasicBlock::Create(b.getContext(), "slow", made);
  Value *x = made->getArg(0), *y = made->getArg(1);
  in.CreateCondBr(has_short_quotients(in, x, y), fast, slow);
  in.SetInsertPoint(fast);
  in.CreateRet(fmod_of_short_quotients(in, x, y));
  in.SetInsertPoint(slow);
  in.CreateRet(fmod_by_calls(in, x, y));
  return made;
}

Value* real_fmod(IRBuilderBase& b, Value* x, Value* y) {
  bool has_fast_form = x->getType()->isVectorTy() && x->getType()->getScalarType()->isFloatTy();
  if (!has_fast_form) return fmod_by_calls(b, x, y);
  return b.CreateCall(fmod_function(b, x->getType()), {x, y});
}

// The remainder with the sign of the divisor.
Value* real_mod(IRBuilderBase& b, Value* x, Value* y) {
  Value* r = real_fmod(b, x, y);
  Value* other_sign =
      b.CreateXor(b.CreateFCmpOLT(r, zero_like(r)), b.CreateFCmpOLT(y, zero_like(y)));
  Value* adjust = b.CreateAnd(b.CreateFCmpUNE(r, zero_like(r)), other_sign);
  return b.CreateSelect(adjust, b.CreateFAdd(r, y), r);
}
// As ATen: the quotient of what the divisor goes into, to the nearest whole number.
Value* real_floordiv(IRBuilderBase& b, Value* x, Value* y) {
  Value* zero = zero_like(x);
  Value* r = real_fmod(b, x, y);
  Value* quotient = b.CreateFDiv(b.CreateFSub(x, r), y);
  Value* other_sign = b.CreateXor(b.CreateFCmpOLT(y, zero), b.CreateFCmpOLT(r, zero));
  Value* adjust = b.CreateAnd(b.CreateFCmpUNE(r, zero), other_sign);
  quotient = b.CreateSelect(adjust, b.CreateFSub(quotient, number_like(x, 1)), quotient);
  Value* whole = b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, quotient);
  Value* is_above = b.CreateFCmpOGT(b.CreateFSub(quotient, whole), number_like(x, 0.5));
  whole = b.CreateSelect(is_above, b.CreateFAdd(whole, number_like(x, 1)), whole);
  Value* exact = b.CreateFDiv(x, y);
  Value* signed_zero = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, zero, exact);
  Value* out = b.CreateSelect(b.CreateFCmpOEQ(quotient, zero), signed_zero, whole);
  return b.CreateSelect(b.CreateFCmpOEQ(y, zero), exact, out);
}

Value* real_op(IRBuilderBase& b, uint16_t code, Value* x, Value* y) {
  auto unary = [&](llvm::Intrinsic::ID id) { return b.CreateUnaryIntrinsic(id, x); };
  switch (code) {
    case TN_F_NEG:
      return b.CreateFNeg(x);
    case TN_F_ABS:
      return unary(llvm::Intrinsic::fabs);
    case TN_F_SIGN: {
      Value* low =
          b.CreateSelect(b.CreateFCmpOLT(x, zero_like(x)), number_like(x, -1), zero_like(x));
      return b.CreateSelect(b.CreateFCmpOGT(x, zero_like(x)), number_like(x, 1), low);
    }
    case TN_F_ADD:
      return b.CreateFAdd(x, y);
    case TN_F_SUB:
      return b.CreateFSub(x, y);
    case TN_F_MUL:
      return b.CreateFMul(x, y);
    case TN_F_DIV:
      return b.CreateFDiv(x, y);
    case TN_F_TRUNCDIV:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, b.CreateFDiv(x, y));
    case TN_F_FLOORDIV:
      return real_floordiv(b, x, y);
    case TN_F_FMOD:
      return real_fmod(b, x, y);
    case TN_F_MOD:
      return real_mod(b, x, y);
    case TN_F_MIN:
    case TN_F_MAX:
      return real_extreme(b, x, y, code == TN_F_MAX);
    case TN_F_COPYSIGN:
      return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x, y);
    case TN_F_SQRT:
      return unary(llvm::Intrinsic::sqrt);
    case TN_F_RSQRT:
      return b.CreateFDiv(number_like(x, 1), unary(llvm::Intrinsic::sqrt));
    case TN_F_FLOOR:
      return unary(llvm::Intrinsic::floor);
    case TN_F_CEIL:
      return unary(llvm::Intrinsic::ceil);
    case TN_F_TRUNC:
      return unary(llvm::Intrinsic::trunc);
    case TN_F_ROUND:
      return unary(llvm::Intrinsic::rint);
    default:
      return nullptr;
  }
}

// Divisions never trap: 0 by 0 is 0, the minimum by -1 is itself.
Value* integer_division(IRBuilderBase& b, uint16_t code, Value* x, Value* y, bool with_sign) {
  Value* by_zero = b.CreateICmpEQ(y, zero_like(y));
  Value* one = llvm::ConstantInt::get(y->getType(), 1);
  Value* safe = b.CreateSelect(by_zero, one, y);
  if (!with_sign) {
    bool quotient = code == TN_F_TRUNCDIV || code == TN_F_FLOORDIV;
    Value* out = quotient ? b.CreateUDiv(x, safe) : b.CreateURem(x, safe);
    return b.CreateSelect(by_zero, zero_like(x), out);
  }
  Value* minus = b.CreateICmpEQ(y, llvm::Constant::getAllOnesValue(y->getType()));
  safe = b.CreateSelect(minus, one, safe);
  Value* q = b.CreateSelect(minus, b.CreateNeg(x), b.CreateSDiv(x, safe));
  Value* r = b.CreateSelect(minus, zero_like(x), b.CreateSRem(x, safe));
  Value* adjust = b.CreateAnd(b.CreateICmpNE(r, zero_like(r)),
                              b.CreateICmpSLT(b.CreateXor(r, y), zero_like(r)));
  Value* out = code == TN_F_TRUNCDIV   ? q
               : code == TN_F_FLOORDIV ? b.CreateSelect(adjust, b.CreateSub(q, one), q)
               : code == TN_F_FMOD     ? r
                                       : b.CreateSelect(adjust, b.CreateAdd(r, y), r);
  return b.CreateSelect(by_zero, zero_like(x), out);
}

Value* shift(IRBuilderBase& b, uint16_t code, Value* x, Value* y, bool with_sign) {
  unsigned bits = x->getType()->getScalarSizeInBits();
  Value* most = llvm::ConstantInt::get(y->getType(), bits - 1);
  Value* fits = b.CreateICmpULE(y, most);
  Value* count = b.CreateSelect(fits, y, most);
  if (code == TN_F_SHL) return b.CreateSelect(fits, b.CreateShl(x, count), zero_like(x));
  if (with_sign) return b.CreateAShr(x, count);
  return b.CreateSelect(fits, b.CreateLShr(x, count), zero_like(x));
}

Value* integer_power(IRBuilderBase& b, Value* x, Value* y, bool with_sign) {
  llvm::Type* wide = x->getType()->getWithNewType(b.getInt64Ty());
  auto widen = [&](Value* v) { return with_sign ? b.CreateSExt(v, wide) : b.CreateZExt(v, wide); };
  return b.CreateTrunc(call_lanes(b, "tenon_integer_power", b.getInt64Ty(), widen(x), widen(y)),
                       x->getType());
}

Value* integer_op(IRBuilderBase& b, uint16_t code, Value* x, Value* y, bool with_sign) {
  switch (code) {
    case TN_F_NEG:
      return b.CreateNeg(x);
    case TN_F_ABS:
      if (!with_sign) return x;
      return b.CreateSelect(b.CreateICmpSLT(x, zero_like(x)), b.CreateNeg(x), x);
    case TN_F_SIGN: {
      llvm::Type* t = x->getType();
      Value* positive =
          with_sign ? b.CreateICmpSGT(x, zero_like(x)) : b.CreateICmpNE(x, zero_like(x));
      Value* negative =
          with_sign ? b.CreateICmpSLT(x, zero_like(x)) : b.CreateICmpULT(x, zero_like(x));
      return b.CreateSub(b.CreateZExt(positive, t), b.CreateZExt(negative, t));
    }
    case TN_F_ADD:
      return b.CreateAdd(x, y);
    case TN_F_SUB:
      return b.CreateSub(x, y);
    case TN_F_MUL:
      return b.CreateMul(x, y);
    case TN_F_TRUNCDIV:
    case TN_F_FLOORDIV:
    case TN_F_FMOD:
    case TN_F_MOD:
      return integer_division(b, code, x, y, with_sign);
    case TN_F_MIN:
    case TN_F_MAX: {
      bool x_first = code == TN_F_MAX;
      Value* less = with_sign ? b.CreateICmpSLT(x, y) : b.CreateICmpULT(x, y);
      return x_first ? b.CreateSelect(less, y, x) : b.CreateSelect(less, x, y);
    }
    case TN_F_POW:
      return integer_power(b, x, y, with_sign);
    case TN_F_BAND:
      return b.CreateAnd(x, y);
    case TN_F_BOR:
      return b.CreateOr(x, y);
    case TN_F_BXOR:
      return b.CreateXor(x, y);
    case TN_F_BNOT:
      return b.CreateNot(x);
    case TN_F_SHL:
    case TN_F_SHR:
      return shift(b, code, x, y, with_sign);
    case TN_F_FLOOR:
    case TN_F_CEIL:
    case TN_F_TRUNC:
    case TN_F_ROUND:
      return x;
    default:
      return nullptr;
  }
}

Value* truth_op(IRBuilderBase& b, uint16_t code, Value* x, Value* y) {
  switch (code) {
    case TN_F_ADD:
    case TN_F_BOR:
    case TN_F_MAX:
      return b.CreateOr(x, y);
    case TN_F_MUL:
    case TN_F_BAND:
    case TN_F_MIN:
      return b.CreateAnd(x, y);
    case TN_F_SUB:
    case TN_F_BXOR:
      return b.CreateXor(x, y);
    case TN_F_BNOT:
      return b.CreateNot(x);
    case TN_F_POW:  // 0 to the 0 is 1
      return b.CreateOr(x, b.CreateNot(y));
    case TN_F_ABS:
    case TN_F_SIGN:
    case TN_F_FLOOR:
    case TN_F_CEIL:
    case TN_F_TRUNC:
    case TN_F_ROUND:
      return x;
    default:
      return nullptr;
  }
}

Value* comparison(IRBuilderBase& b, uint16_t code, int32_t dtype, Value* x, Value* y) {
  using P = llvm::CmpInst::Predicate;
  constexpr P real[] = {P::FCMP_OEQ, P::FCMP_UNE, P::FCMP_OLT,
                        P::FCMP_OLE, P::FCMP_OGT, P::FCMP_OGE};
  constexpr P with_sign[] = {P::ICMP_EQ,  P::ICMP_NE,  P::ICMP_SLT,
                             P::ICMP_SLE, P::ICMP_SGT, P::ICMP_SGE};
  constexpr P plain[] = {P::ICMP_EQ,  P::ICMP_NE,  P::ICMP_ULT,
                         P::ICMP_ULE, P::ICMP_UGT, P::ICMP_UGE};
  size_t which = static_cast<size_t>(code - TN_F_EQ);
  if (is_float(dtype)) return b.CreateFCmp(real[which], x, y);
  return b.CreateICmp(is_signed(dtype) ? with_sign[which] : plain[which], x, y);
}

// Out of range and NaN give the minimum, as the processor's conversion does.
Value* real_to_integer(IRBuilderBase& b, Value* x, int32_t to, llvm::Type* type) {
  bool narrow = to == TN_U8 || to == TN_I8 || to == TN_I16;
  llvm::Type* through = type->getWithNewType(to == TN_I64 ? b.getInt64Ty() : b.getInt32Ty());
  double limit = to == TN_I64 ? 0x1p63 : 0x1p31;
  Value* fits = b.CreateAnd(b.CreateFCmpOGE(x, number_like(x, -limit)),
                            b.CreateFCmpOLT(x, number_like(x, limit)));
  Value* safe = b.CreateSelect(fits, x, zero_like(x));
  uint64_t lowest = uint64_t{1} << (to == TN_I64 ? 63 : 31);
  Value* out =
      b.CreateSelect(fits, b.CreateFPToSI(safe, through), llvm::ConstantInt::get(through, lowest));
  return narrow ? b.CreateTrunc(out, type) : out;
}

}  // namespace

llvm::Type* lane_type(llvm::LLVMContext& c, int32_t dtype) {
  switch (dtype) {
    case TN_BOOL:
      return llvm::Type::getInt1Ty(c);
    case TN_U8:
    case TN_I8:
      return llvm::Type::getInt8Ty(c);
    case TN_I16:
      return llvm::Type::getInt16Ty(c);
    case TN_I32:
      return llvm::Type::getInt32Ty(c);
    case TN_I64:
      return llvm::Type::getInt64Ty(c);
    case TN_F64:
      return llvm::Type::getDoubleTy(c);
    case TN_F16:
    case TN_BF16:
    case TN_F32:
      return llvm::Type::getFloatTy(c);
    default:
      throw tenon::plugin::declined(tenon::plugin::text("dtype {} is not compiled", dtype));
  }
}

llvm::Type* widened(llvm::Type* scalar, unsigned width) {
  return width ? llvm::FixedVectorType::get(scalar, width) : scalar;
}

Value* constant_of(llvm::Type* type, double number) { return llvm::ConstantFP::get(type, number); }
Value* constant_of(llvm::Type* type, int64_t number) {
  return llvm::ConstantInt::get(type, static_cast<uint64_t>(number), true);
}

Value* emit_cast(IRBuilderBase& b, Value* x, int32_t from, int32_t to) {
  llvm::Type* type = x->getType()->getWithNewType(lane_type(b.getContext(), to));
  if (is_float(from) && is_float(to)) return b.CreateFPCast(x, type);
  if (to == TN_BOOL)
    return is_float(from) ? b.CreateFCmpUNE(x, zero_like(x)) : b.CreateICmpNE(x, zero_like(x));
  if (is_float(from)) return real_to_integer(b, x, to, type);
  if (is_float(to)) return is_signed(from) ? b.CreateSIToFP(x, type) : b.CreateUIToFP(x, type);
  return b.CreateIntCast(x, type, is_signed(from));
}

bool is_called(uint16_t code, int32_t operand) {
  if (is_float(operand))
    return (is_math(code) && math_cost(code) > 500) || code == TN_F_FMOD || code == TN_F_MOD ||
           code == TN_F_FLOORDIV;
  return code == TN_F_POW;
}

Value* emit_primitive(IRBuilderBase& b, uint16_t code, int32_t result, int32_t operand, Value* x,
                      Value* y, Value* z) {
  if (code == TN_F_CAST) return emit_cast(b, x, operand, result);
  if (code == TN_F_SELECT) return b.CreateSelect(x, y, z);
  Value* out = nullptr;
  if (code >= TN_F_EQ && code <= TN_F_GE)
    out = comparison(b, code, operand, x, y);
  else if (is_float(operand))
    out = is_math(code) ? emit_math(b, code, x, y, loopir::is_narrow(result))
                        : real_op(b, code, x, y);
  else if (operand == TN_BOOL)
    out = truth_op(b, code, x, y);
  else
    out = integer_op(b, code, x, y, is_signed(operand));
  if (!out)
    throw tenon::plugin::declined(
        tenon::plugin::text("primitive {} has no code for dtype {}", code, operand));
  return out;
}

// The intrinsic, since LLVM 19 makes a comparison of x out of one of |x| where comparisons and
// selections are written out.
Value* any_extreme(IRBuilderBase& b, Value* x, Value* y, bool maximum) {
  Value* out =
      b.CreateBinaryIntrinsic(maximum ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum, x, y);
  llvm::FastMathFlags flags;
  flags.setNoSignedZeros();
  if (auto* call = llvm::dyn_cast<llvm::Instruction>(out)) call->setFastMathFlags(flags);
  return out;
}

Value* emit_index_op(IRBuilderBase& b, loopir::IndexKind kind, Value* x, Value* y, bool is_plain) {
  using loopir::IndexKind;
  if (kind == IndexKind::min) return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
  if (kind == IndexKind::max) return b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, y);
  bool wants_rest = kind == IndexKind::mod;
  if (is_plain) return wants_rest ? b.CreateURem(x, y) : b.CreateUDiv(x, y);
  Value* one = constant_of(x->getType(), int64_t{1});
  // A size that is 0 traps nobody: no element is there to be found.
  y = b.CreateSelect(b.CreateICmpEQ(y, zero_like(y)), one, y);
  Value* rest = b.CreateSRem(x, y);
  Value* adjust = b.CreateAnd(b.CreateICmpNE(rest, zero_like(rest)),
                              b.CreateICmpSLT(b.CreateXor(rest, y), zero_like(rest)));
  if (wants_rest) return b.CreateSelect(adjust, b.CreateAdd(rest, y), rest);
  Value* quotient = b.CreateSDiv(x, y);
  return b.CreateSelect(adjust, b.CreateSub(quotient, one), quotient);
}

}  // namespace lanes
