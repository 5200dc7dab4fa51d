// Rules of floor division, ceiling division and remainder.
//
// Model: a = b * (a // b) + a % b with the remainder of the divisor's sign, as Python has it; a
//   divisor is never 0. Identities for all integers:
//     (q*b + r) // b = q + r // b             terms that b divides are split off
//     (g*x + c) // (g*b) = (x + c//g) // b    common factor g > 0, b > 0
//     (a // c) // b = a // (c*b)              b > 0
//     (q*b + r) % b = r % b,  (g*x + c) % (g*b) = g*((x + c//g) % b) + c%g
//   and, with facts: 0 <= a < b gives a // b = 0 and a % b = a; `b divides t` drops t from a % b.
// Source: Graham, Knuth, Patashnik, Concrete Mathematics, 3.1 and 3.4.
#include "core/sym/sym_rules.h"
#include "core/sym/sym_simplify.h"

#include <numeric>

namespace tenon::rules {

namespace {

const Expr* integer_node(SymOp op, const Expr* a, const Expr* b) {
  const Expr* operands[] = {a, b};
  return intern_node(op, ExprKind::integer, operands);
}

struct Split {
  Sum quotient, rest;  // a = quotient * b + rest
};

Split split_multiples(const Sum& a, const Sum& b) {
  if (auto whole = exact_quotient(a, b)) return {*whole, Sum()};
  if (b.size() != 1) return {Sum(), a};
  Split out;
  for (const Term& t : a.terms()) {
    Sum term;
    term.add_term(t.monomial, t.factor);
    if (auto q = exact_quotient(term, b)) {
      out.quotient.add(*q);
    } else {
      out.rest.add(term);
    }
  }
  int64_t c = a.constant(), d = b.constant();
  if (d != 0 && !(d == -1 && c == INT64_MIN)) {
    out.quotient.add_constant(detail::floordiv(c, d));
    c = detail::floormod(c, d);
  }
  out.rest.add_constant(c);
  return out;
}

/// The greatest factor that can leave both sides of a division: of the terms of a and all of b.
int64_t common_factor(const Sum& a, const Sum& b) {
  int64_t c = a.is_constant() ? a.constant() : a.content();
  if (c == INT64_MIN || b.constant() == INT64_MIN) return 1;
  return std::gcd(std::gcd(c, b.content()), b.constant());
}

Sum divide_floor(const Sum& a, int64_t g) {
  Sum out = a.form(g);
  out.add_constant(detail::floordiv(a.constant(), g));
  return out;
}

/// Powers that divide every term of a, and b; b is a single term.
Powers common_powers(const Sum& a, const Sum& b) {
  if (a.constant() != 0 || b.constant() != 0 || b.size() != 1 || a.terms().empty()) return {};
  Powers out;
  for (Power p : powers_of(b.terms()[0].monomial)) {
    for (const Term& t : a.terms()) {
      int64_t found = 0;
      for (const Power& q : powers_of(t.monomial))
        if (q.base == p.base) found = q.exponent;
      p.exponent = std::min(p.exponent, found);
    }
    if (p.exponent > 0) out.push_back(p);
  }
  return out;
}

void cancel_common(Sum& a, Sum& b) {
  Powers powers = common_powers(a, b);
  if (!powers.empty()) {
    Sum divisor(monomial_of(powers));
    a = *exact_quotient(a, divisor);
    b = *exact_quotient(b, divisor);
  }
  int64_t g = common_factor(a, b);
  bool exact = g > 1 && a.constant() % g == 0;
  if (g > 1 && (exact || (b.is_constant() && b.constant() > 0))) {
    a = divide_floor(a, g);
    b = divide_floor(b, g);
  }
}

std::optional<int64_t> single_quotient(const Sum& a, const Expr* b, const SymFacts* facts) {
  Range range = floordiv_ranges(range_of_sum(a, facts), range_of(b, facts));
  if (range.is_single()) return range.lo;
  if (range_of(b, facts).lo <= 0 || b->is_constant() || range_of_sum(a, facts).lo < 0)
    return std::nullopt;
  Range excess = tight_range(a - Sum(b), facts);
  return excess.hi < 0 ? std::optional<int64_t>(0) : std::nullopt;
}

/// Drops from the dividend what b divides: known multiples, and inner remainders by multiples of b.
/// Factors are reduced by a constant b.
Sum reduce_dividend(const Sum& a, const Expr* b, const SymFacts* facts) {
  Sum out(a.constant());
  bool reducible = b->is_constant() && b->integer() > 0;
  for (const Term& t : a.terms()) {
    const Expr* m = t.monomial;
    if (m->op == SymOp::mod && exact_quotient(Sum(m->operand(1)), Sum(b))) {
      out.add(reduce_dividend(Sum(m->operand(0)), b, facts), t.factor);
      continue;
    }
    Sum term;
    term.add_term(m, t.factor);
    bool multiple = facts && facts->is_divisible(term.expr(), b);
    if (!multiple) out.add(term);
  }
  if (!reducible) return out;
  Sum reduced(out.constant());
  for (const Term& t : out.terms())
    reduced.add_term(t.monomial, detail::floormod(t.factor, b->integer()));
  return reduced;
}

const Expr* reduced_mod(const Sum& a, const Expr* b, const SymFacts* facts) {
  if (b->is_constant()) {
    int64_t d = b->integer();
    if (d == 1 || d == -1) return intern_integer(0);
    if (a.is_constant()) return intern_integer(detail::floormod(a.constant(), d));
  }
  if (a.is_zero()) return intern_integer(0);
  Range range = range_of_sum(a, facts), divisor = range_of(b, facts);
  bool in_place =
      range.lo >= 0 && divisor.lo > 0 &&
      (range.hi < divisor.lo || (!b->is_constant() && tight_range(a - Sum(b), facts).hi < 0));
  if (in_place) return a.expr();
  if (facts && facts->is_divisible(a.expr(), b)) return intern_integer(0);
  return nullptr;
}

}  // namespace

const Expr* build_floordiv(const Expr* a, const Expr* b, const SymFacts* facts) {
  if (b->is_integer(0)) detail::fail_zero_divisor(a->is_constant() ? a->integer() : 0);
  Split split = split_multiples(Sum(a), Sum(b));
  if (split.rest.is_zero()) return build_sum(split.quotient, facts);
  Sum rest = split.rest, divisor(b);
  cancel_common(rest, divisor);
  const Expr* top = build_sum(rest, facts);
  const Expr* by = build_sum(divisor, facts);
  if (top != a || by != b) {
    split.quotient.add(build_floordiv(top, by, facts));
  } else if (auto value = single_quotient(rest, by, facts)) {
    split.quotient.add_constant(*value);
  } else if (top->op == SymOp::floordiv && range_of(by, facts).lo > 0) {
    const Expr* joined = build_product(top->operand(1), by, facts);
    split.quotient.add(build_floordiv(top->operand(0), joined, facts));
  } else {
    return integer_node(SymOp::floordiv, top, by);
  }
  return build_sum(split.quotient, facts);
}

const Expr* build_ceildiv(const Expr* a, const Expr* b, const SymFacts* facts) {
  if (b->is_integer(0)) detail::fail_zero_divisor(a->is_constant() ? a->integer() : 0);
  if (b->is_constant() && b->integer() > 0) {
    Sum raised(a);
    raised.add_constant(b->integer() - 1);
    return build_floordiv(raised.expr(), b, facts);
  }
  Split split = split_multiples(Sum(a), Sum(b));
  if (!split.rest.is_zero()) {
    Sum rest = split.rest, divisor(b);
    Powers powers = common_powers(rest, divisor);
    if (!powers.empty()) {
      Sum common(monomial_of(powers));
      return build_ceildiv(build_sum(*exact_quotient(Sum(a), common), facts),
                           build_sum(*exact_quotient(divisor, common), facts), facts);
    }
    Range range = ceildiv_ranges(range_of_sum(rest, facts), range_of(b, facts));
    if (range.is_single())
      split.quotient.add_constant(range.lo);
    else
      split.quotient.add(integer_node(SymOp::ceildiv, rest.expr(), b));
  }
  return build_sum(split.quotient, facts);
}

const Expr* build_mod(const Expr* a, const Expr* b, const SymFacts* facts) {
  if (b->is_integer(0)) detail::fail_zero_divisor(a->is_constant() ? a->integer() : 0);
  Sum rest = split_multiples(reduce_dividend(Sum(a), b, facts), Sum(b)).rest;
  if (const Expr* known = reduced_mod(rest, b, facts)) return known;
  Sum divisor(b);
  int64_t g = common_factor(rest, divisor);
  bool exact = g > 1 && rest.constant() % g == 0;
  if (g > 1 && (exact || (b->is_constant() && b->integer() > 0))) {
    Sum out(detail::floormod(rest.constant(), g));
    out.add(build_mod(divide_floor(rest, g).expr(), divide_floor(divisor, g).expr(), facts), g);
    return build_sum(out, facts);
  }
  const Expr* top = build_sum(rest, facts);
  return top == a ? integer_node(SymOp::mod, a, b) : build_mod(top, b, facts);
}

bool divides(const Expr* b, const Expr* a, const SymFacts* facts) {
  return build_mod(a, b, facts)->is_integer(0);
}

}  // namespace tenon::rules
