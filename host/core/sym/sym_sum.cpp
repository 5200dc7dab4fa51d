// Addition, multiplication and exact division of polynomials over atoms.
#include "core/sym/sym_sum.h"

#include <algorithm>
#include <numeric>

namespace tenon {

namespace {

constexpr size_t max_expanded_terms = 64;
constexpr int max_division_steps = 64;

bool is_natural_power(const Expr* e) {
  return e->op == SymOp::pow && e->operand(1)->is_constant() && e->kind == ExprKind::integer &&
         e->operand(1)->integer() > 0;
}

void append_factors(std::vector<const Expr*>& out, const Expr* monomial) {
  if (monomial->op != SymOp::mul) return out.push_back(monomial);
  for (const Expr* operand : monomial->operands()) out.push_back(operand);
}

const Expr* term_expr(const Term& term) {
  if (term.factor == 1) return term.monomial;
  std::vector<const Expr*> operands{intern_integer(term.factor)};
  append_factors(operands, term.monomial);
  return intern_node(SymOp::mul, ExprKind::integer, operands);
}

/// The leading term of `a` divided by that of `b`, if that is exact.
std::optional<Sum> leading_quotient(const Sum& a, const Sum& b) {
  int64_t divisor = b.is_constant() ? b.constant() : b.terms()[0].factor;
  Powers divisor_powers = b.is_constant() ? Powers() : powers_of(b.terms()[0].monomial);
  int64_t factor = a.is_constant() ? a.constant() : a.terms()[0].factor;
  Powers powers = a.is_constant() ? Powers() : powers_of(a.terms()[0].monomial);
  auto rest = divide(powers, divisor_powers);
  if (divisor == 0 || divisor == INT64_MIN || (divisor == -1 && factor == INT64_MIN) ||
      factor % divisor != 0 || !rest)
    return std::nullopt;
  const Expr* monomial = monomial_of(*rest);
  if (monomial == nullptr) return Sum(factor / divisor);
  Sum result;
  result.add_term(monomial, factor / divisor);
  return result;
}

}  // namespace

int64_t checked_add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) detail::fail_overflow("+", a, b);
  return r;
}
int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) detail::fail_overflow("*", a, b);
  return r;
}

Powers powers_of(const Expr* monomial) {
  Powers out;
  auto append = [&out](const Expr* e) {
    out.push_back(is_natural_power(e) ? Power{e->operand(0), e->operand(1)->integer()}
                                      : Power{e, 1});
  };
  if (monomial->op != SymOp::mul) {
    append(monomial);
  } else {
    for (const Expr* e : monomial->operands()) append(e);
  }
  return out;
}

const Expr* monomial_of(const Powers& powers) {
  std::vector<const Expr*> operands;
  for (const Power& p : powers) {
    if (p.exponent == 1) {
      operands.push_back(p.base);
    } else {
      const Expr* pair[] = {p.base, intern_integer(p.exponent)};
      operands.push_back(intern_node(SymOp::pow, ExprKind::integer, pair));
    }
  }
  if (operands.empty()) return nullptr;
  if (operands.size() == 1) return operands[0];
  return intern_node(SymOp::mul, ExprKind::integer, operands);
}

Powers multiply(const Powers& a, const Powers& b) {
  Powers out;
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    int order = i == a.size() ? 1 : j == b.size() ? -1 : compare_order(a[i].base, b[j].base);
    if (order == 0) {
      out.push_back({a[i].base, checked_add(a[i].exponent, b[j].exponent)});
      ++i, ++j;
    } else {
      out.push_back(order < 0 ? a[i++] : b[j++]);
    }
  }
  return out;
}

std::optional<Powers> divide(const Powers& a, const Powers& b) {
  Powers out = a;
  for (const Power& p : b) {
    auto it = std::find_if(out.begin(), out.end(), [&](auto& q) { return q.base == p.base; });
    if (it == out.end() || it->exponent < p.exponent) return std::nullopt;
    it->exponent -= p.exponent;
    if (it->exponent == 0) out.erase(it);
  }
  return out;
}

void Sum::add_constant(int64_t value) { constant_ = checked_add(constant_, value); }

void Sum::add_term(const Expr* monomial, int64_t factor) {
  if (factor == 0) return;
  auto same = std::find_if(terms_.begin(), terms_.end(),
                           [&](const Term& t) { return t.monomial == monomial; });
  if (same != terms_.end()) {
    same->factor = checked_add(same->factor, factor);
    if (same->factor == 0) terms_.erase(same);
    return;
  }
  auto place = std::partition_point(terms_.begin(), terms_.end(), [&](const Term& t) {
    return compare_order(t.monomial, monomial) < 0;
  });
  terms_.insert(place, {monomial, factor});
}

void Sum::add(const Expr* expr, int64_t scale) {
  if (expr->is_constant()) return add_constant(checked_mul(expr->integer(), scale));
  if (expr->op == SymOp::add) {
    for (const Expr* operand : expr->operands()) add(operand, scale);
    return;
  }
  if (expr->op != SymOp::mul || !expr->operand(0)->is_constant()) return add_term(expr, scale);
  auto rest = expr->operands().subspan(1);
  const Expr* monomial =
      rest.size() == 1 ? rest[0] : intern_node(SymOp::mul, ExprKind::integer, rest);
  add_term(monomial, checked_mul(expr->operand(0)->integer(), scale));
}

void Sum::add(const Sum& other, int64_t scale) {
  for (const Term& t : other.terms_) add_term(t.monomial, checked_mul(t.factor, scale));
  add_constant(checked_mul(other.constant_, scale));
}

Sum Sum::without(const Term& term) const {
  Sum out = *this;
  out.add_term(term.monomial, checked_mul(term.factor, -1));
  return out;
}

int64_t Sum::content() const {
  // Unsigned, since the gcd of INT64_MIN with itself does not fit; the caller's use of 2^63 as a
  // divisor would be its negative, so it is given up as 1.
  uint64_t g = 0;
  for (const Term& t : terms_) {
    uint64_t magnitude = t.factor < 0 ? 0 - static_cast<uint64_t>(t.factor) : t.factor;
    g = std::gcd(g, magnitude);
  }
  return g > INT64_MAX ? 1 : static_cast<int64_t>(g);
}

Sum Sum::form(int64_t divisor) const {
  Sum out;
  out.terms_ = terms_;
  for (Term& t : out.terms_)
    t.factor = divisor == -1 ? checked_mul(t.factor, -1) : t.factor / divisor;
  return out;
}

const Expr* Sum::expr() const {
  if (terms_.empty()) return intern_integer(constant_);
  if (terms_.size() == 1 && constant_ == 0) return term_expr(terms_[0]);
  std::vector<const Expr*> operands;
  operands.reserve(terms_.size() + 1);
  for (const Term& t : terms_) operands.push_back(term_expr(t));
  if (constant_ != 0) operands.push_back(intern_integer(constant_));
  return intern_node(SymOp::add, ExprKind::integer, operands);
}

Sum operator-(const Sum& a, const Sum& b) {
  Sum out = a;
  out.add(b, -1);
  return out;
}

std::optional<Sum> multiply(const Sum& a, const Sum& b) {
  bool scaling = a.size() <= 1 || b.size() <= 1;
  if (!scaling && a.size() * b.size() > max_expanded_terms) return std::nullopt;
  Sum out(checked_mul(a.constant(), b.constant()));
  for (const Term& x : a.terms()) {
    if (b.constant() != 0) out.add_term(x.monomial, checked_mul(x.factor, b.constant()));
    for (const Term& y : b.terms()) {
      Powers powers = multiply(powers_of(x.monomial), powers_of(y.monomial));
      out.add_term(monomial_of(powers), checked_mul(x.factor, y.factor));
    }
  }
  if (a.constant() != 0)
    for (const Term& y : b.terms()) out.add_term(y.monomial, checked_mul(y.factor, a.constant()));
  return out;
}

std::optional<Sum> exact_quotient(const Sum& a, const Sum& b) {
  if (b.is_zero()) return std::nullopt;
  Sum rest = a, quotient;
  for (int step = 0; !rest.is_zero(); ++step) {
    std::optional<Sum> q = leading_quotient(rest, b);
    if (!q || step == max_division_steps) return std::nullopt;
    std::optional<Sum> product = multiply(*q, b);
    if (!product) return std::nullopt;
    rest.add(*product, -1);
    quotient.add(*q);
  }
  return quotient;
}

}  // namespace tenon
