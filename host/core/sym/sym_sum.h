// Polynomials with integer factors, the form in which integer expressions are added and multiplied.
#pragma once

#include "core/sym/sym_expr.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace tenon {

/// base ** exponent, exponent at least 1; bases are atoms (or sums too large to expand).
struct Power {
  const Expr* base;
  int64_t exponent;
};
/// A product of powers, sorted by compare_order; empty means 1.
using Powers = std::vector<Power>;

/// factor * monomial; the monomial is an atom, a power or a product of them.
struct Term {
  const Expr* monomial;
  int64_t factor;
};

/// constant + sum of terms, sorted by compare_order, no two alike. Overflow throws UserError.
class Sum {
 public:
  Sum() = default;
  explicit Sum(int64_t constant) : constant_(constant) {}
  /// From a canonical integer expression.
  explicit Sum(const Expr* expr) { add(expr); }

  void add(const Expr* expr, int64_t scale = 1);
  void add(const Sum& other, int64_t scale = 1);
  void add_term(const Expr* monomial, int64_t factor);
  void add_constant(int64_t value);
  Sum without(const Term& term) const;

  const std::vector<Term>& terms() const { return terms_; }
  int64_t constant() const { return constant_; }
  bool is_constant() const { return terms_.empty(); }
  bool is_zero() const { return terms_.empty() && constant_ == 0; }
  /// Terms and constant together.
  size_t size() const { return terms_.size() + (constant_ != 0); }
  /// The greatest common divisor of the factors, without the constant; 0 without terms.
  int64_t content() const;
  /// Every factor divided by `divisor`, which must divide all, and the constant dropped.
  Sum form(int64_t divisor) const;

  const Expr* expr() const;

 private:
  std::vector<Term> terms_;
  int64_t constant_ = 0;
};

Sum operator-(const Sum& a, const Sum& b);
/// Nothing when the product would have more than 64 terms.
std::optional<Sum> multiply(const Sum& a, const Sum& b);
/// q with a == q * b as polynomials, if there is one.
std::optional<Sum> exact_quotient(const Sum& a, const Sum& b);

Powers powers_of(const Expr* monomial);
/// Null for the empty product.
const Expr* monomial_of(const Powers& powers);
Powers multiply(const Powers& a, const Powers& b);
std::optional<Powers> divide(const Powers& a, const Powers& b);

int64_t checked_add(int64_t a, int64_t b);
int64_t checked_mul(int64_t a, int64_t b);

}  // namespace tenon
