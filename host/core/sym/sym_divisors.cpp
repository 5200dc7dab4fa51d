// What follows from known divisors.
#include "core/sym/sym_divisors.h"

#include "core/sym/sym_sum.h"

#include <algorithm>

namespace tenon {

namespace {

/// Whether `value` is q * known plus a multiple of `divisor`, and `divisor` divides
/// q * known_divisor.
bool follows(const Sum& value, const Expr* known, const Expr* known_divisor, const Sum& divisor) {
  auto divides_known = [&](const Sum& q) {
    auto multiple = multiply(q, Sum(known_divisor));
    return multiple && exact_quotient(*multiple, divisor);
  };
  if (auto q = exact_quotient(value, Sum(known))) return divides_known(*q);
  Sum base(known);
  auto q = exact_quotient(value.form(1), base.form(1));  // without the constants
  if (!q || !q->is_constant() || !divisor.is_constant()) return false;
  Sum rest = value;
  rest.add(base, -q->constant());
  return rest.constant() % divisor.constant() == 0 && divides_known(*q);
}

}  // namespace

bool SymDivisors::divide(const Expr* value, const Expr* divisor) const {
  return std::any_of(pairs_.begin(), pairs_.end(), [&](const auto& known) {
    return follows(Sum(value), known.first, known.second, Sum(divisor));
  });
}

}  // namespace tenon
