// Operators on tensors, in terms of the ops.
#include <tenon/ops.h>

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

#define TENON_COMPOUND(symbol, op)                       \
  Tensor& Tensor::operator symbol(const Tensor& other) { \
    tenon::op(*this, other);                             \
    return *this;                                        \
  }                                                      \
  Tensor& Tensor::operator symbol(Number other) {        \
    tenon::op(*this, other);                             \
    return *this;                                        \
  }
TENON_COMPOUND(+=, add_)
TENON_COMPOUND(-=, sub_)
TENON_COMPOUND(*=, mul_)
TENON_COMPOUND(/=, div_)
#undef TENON_COMPOUND

void Tensor::operator=(const Tensor& values) && { tenon::copy_(*this, values); }
void Tensor::operator=(Number value) && { tenon::fill_(*this, value); }

Tensor randint(SymInt low, SymInt high, std::initializer_list<SymInt> size) {
  return randint(low, high, SymIntList(List<SymInt>(size.begin(), size.size())));
}

Tensor Tensor::operator[](SymInt index) const {
  if (!defined()) detail::fail_undefined("operator[]");
  return tenon::select(*this, 0, index);
}
const Tensor Tensor::operator[](const Tensor& index) const {  // NOLINT: see its declaration
  if (!defined()) detail::fail_undefined("operator[]");
  return tenon::index(*this, {index});
}

}  // namespace tenon
