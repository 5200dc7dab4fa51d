// A value of IR that computes like a number, so that a formula reads as one; for vector_math*.cpp.
//
// `Lanes` holds floats or integers, a scalar or a vector; operators insert instructions through the
// builder that it carries. Plain numbers take the type of the other operand. `fma` is the one way
// to a fused multiply-add: the operators are never contracted, so results do not depend on the
// target.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>

#include <cstdint>
#include <span>

namespace lanes {

struct Lanes {
  llvm::IRBuilderBase* b;
  llvm::Value* v;

  llvm::Type* type() const { return v->getType(); }
  bool is_float() const { return type()->isFPOrFPVectorTy(); }
  unsigned bits() const { return type()->getScalarSizeInBits(); }
  unsigned count() const {
    auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type());
    return vector != nullptr ? vector->getNumElements() : 1;
  }
  /// The type of as many lanes of `element`.
  llvm::Type* of(llvm::Type* element) const {
    bool vector = type()->isVectorTy();
    return vector ? llvm::FixedVectorType::get(element, count()) : element;
  }
  Lanes with(llvm::Value* value) const { return {b, value}; }
  /// The number in this type, in every lane.
  Lanes number(double x) const { return with(llvm::ConstantFP::get(type(), x)); }
  Lanes integer(uint64_t x) const { return with(llvm::ConstantInt::get(type(), x)); }
};

inline Lanes operator+(Lanes x, Lanes y) {
  return x.with(x.is_float() ? x.b->CreateFAdd(x.v, y.v) : x.b->CreateAdd(x.v, y.v));
}
inline Lanes operator-(Lanes x, Lanes y) {
  return x.with(x.is_float() ? x.b->CreateFSub(x.v, y.v) : x.b->CreateSub(x.v, y.v));
}
inline Lanes operator*(Lanes x, Lanes y) { return x.with(x.b->CreateFMul(x.v, y.v)); }
inline Lanes operator/(Lanes x, Lanes y) { return x.with(x.b->CreateFDiv(x.v, y.v)); }
inline Lanes operator-(Lanes x) { return x.with(x.b->CreateFNeg(x.v)); }
inline Lanes operator+(Lanes x, double y) { return x + x.number(y); }
inline Lanes operator-(Lanes x, double y) { return x - x.number(y); }
inline Lanes operator*(Lanes x, double y) { return x * x.number(y); }
inline Lanes operator/(double x, Lanes y) { return y.number(x) / y; }
inline Lanes operator-(double x, Lanes y) { return y.number(x) - y; }

inline Lanes operator&(Lanes x, Lanes y) { return x.with(x.b->CreateAnd(x.v, y.v)); }
inline Lanes operator|(Lanes x, Lanes y) { return x.with(x.b->CreateOr(x.v, y.v)); }
inline Lanes operator^(Lanes x, Lanes y) { return x.with(x.b->CreateXor(x.v, y.v)); }
inline Lanes operator<<(Lanes x, unsigned n) { return x.with(x.b->CreateShl(x.v, n)); }
/// Arithmetic: copies of the sign enter.
inline Lanes operator>>(Lanes x, unsigned n) { return x.with(x.b->CreateAShr(x.v, n)); }

// Comparisons of floats, false where an operand is NaN except for `!=`.
inline Lanes operator<(Lanes x, Lanes y) { return x.with(x.b->CreateFCmpOLT(x.v, y.v)); }
inline Lanes operator<(Lanes x, double y) { return x < x.number(y); }
inline Lanes operator>(Lanes x, double y) { return x.number(y) < x; }
inline Lanes operator>=(Lanes x, double y) {
  return x.with(x.b->CreateFCmpOGE(x.v, x.number(y).v));
}
inline Lanes operator==(Lanes x, Lanes y) { return x.with(x.b->CreateFCmpOEQ(x.v, y.v)); }
inline Lanes operator==(Lanes x, double y) { return x == x.number(y); }
inline Lanes operator!=(Lanes x, Lanes y) { return x.with(x.b->CreateFCmpUNE(x.v, y.v)); }
inline Lanes select(Lanes mask, Lanes x, Lanes y) {
  return x.with(x.b->CreateSelect(mask.v, x.v, y.v));
}
/// NaN stays.
inline Lanes at_most(Lanes x, double limit) { return select(x > limit, x.number(limit), x); }
inline Lanes at_least(Lanes x, double limit) { return select(x < limit, x.number(limit), x); }

inline Lanes fma(Lanes x, Lanes y, Lanes z) {
  return x.with(x.b->CreateIntrinsic(x.type(), llvm::Intrinsic::fma, {x.v, y.v, z.v}));
}
inline Lanes fma(Lanes x, double y, Lanes z) { return fma(x, x.number(y), z); }
inline Lanes fma(Lanes x, Lanes y, double z) { return fma(x, y, x.number(z)); }
inline Lanes fma(Lanes x, double y, double z) { return fma(x, x.number(y), x.number(z)); }
inline Lanes unary(llvm::Intrinsic::ID id, Lanes x) {
  return x.with(x.b->CreateIntrinsic(x.type(), id, {x.v}));
}
inline Lanes abs(Lanes x) { return unary(llvm::Intrinsic::fabs, x); }
inline Lanes sqrt(Lanes x) { return unary(llvm::Intrinsic::sqrt, x); }
inline Lanes nearest(Lanes x) { return unary(llvm::Intrinsic::rint, x); }
inline Lanes copysign(Lanes x, Lanes sign) {
  return x.with(x.b->CreateIntrinsic(x.type(), llvm::Intrinsic::copysign, {x.v, sign.v}));
}

inline Lanes to_bits(Lanes x) {
  return x.with(x.b->CreateBitCast(x.v, x.of(x.b->getIntNTy(x.bits()))));
}
inline Lanes from_bits(Lanes x) {
  bool wide = x.bits() == 64;
  return x.with(x.b->CreateBitCast(x.v, x.of(wide ? x.b->getDoubleTy() : x.b->getFloatTy())));
}
/// Of 64-bit integers below 2^51, by way of bits: a conversion is slow before AVX-512.
inline Lanes integer_as_double(Lanes x) {
  constexpr uint64_t place = 0x4338000000000000;  // 1.5 2^52, whose last place is 1
  return from_bits(x + x.integer(place)) - 0x1.8p52;
}
inline Lanes widened(Lanes x) { return x.with(x.b->CreateFPExt(x.v, x.of(x.b->getDoubleTy()))); }
inline Lanes narrowed(Lanes x) { return x.with(x.b->CreateFPTrunc(x.v, x.of(x.b->getFloatTy()))); }

/// c[0] + c[1] x + ..., by Horner's rule: the fewest instructions; loops have other work in flight.
inline Lanes polynomial(Lanes x, std::span<const double> c) {
  Lanes sum = x.number(c.back());
  for (size_t i = c.size() - 1; i-- > 0;) sum = fma(sum, x, c[i]);
  return sum;
}

}  // namespace lanes
