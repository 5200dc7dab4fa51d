// Operators on tensors, in terms of the ops.
#include <tenon/ops/pointwise.h>

namespace tenon {

#define TENON_ARITHMETIC(symbol, op, number_first)                              \
  Tensor operator symbol(const Tensor& a, const Tensor& b) { return op(a, b); } \
  Tensor operator symbol(const Tensor& a, Number b) { return op(a, b); }        \
  Tensor operator symbol(Number a, const Tensor& b) { return number_first; }
TENON_ARITHMETIC(+, add, add(b, a))
TENON_ARITHMETIC(-, sub, rsub(b, a))
TENON_ARITHMETIC(*, mul, mul(b, a))
TENON_ARITHMETIC(/, div, mul(b.reciprocal(), a))
TENON_ARITHMETIC(%, remainder, remainder(a, b))
TENON_ARITHMETIC(==, eq, eq(b, a))
TENON_ARITHMETIC(!=, ne, ne(b, a))
TENON_ARITHMETIC(<, lt, gt(b, a))
TENON_ARITHMETIC(<=, le, ge(b, a))
TENON_ARITHMETIC(>, gt, lt(b, a))
TENON_ARITHMETIC(>=, ge, le(b, a))
TENON_ARITHMETIC(&, bitwise_and, bitwise_and(b, a))
TENON_ARITHMETIC(|, bitwise_or, bitwise_or(b, a))
TENON_ARITHMETIC(^, bitwise_xor, bitwise_xor(b, a))
#undef TENON_ARITHMETIC

Tensor operator-(const Tensor& a) { return neg(a); }
Tensor operator~(const Tensor& a) { return bitwise_not(a); }
Tensor operator!(const Tensor& a) { return logical_not(a); }

Tensor& Tensor::operator+=(const Tensor& other) {
  tenon::add_(*this, other);
  return *this;
}
Tensor& Tensor::operator-=(const Tensor& other) {
  tenon::sub_(*this, other);
  return *this;
}
Tensor& Tensor::operator*=(const Tensor& other) {
  tenon::mul_(*this, other);
  return *this;
}
Tensor& Tensor::operator/=(const Tensor& other) {
  tenon::div_(*this, other);
  return *this;
}

}  // namespace tenon
