// make_expr: kinds, sums, products, powers, min and max, choice; rebuilding of whole expressions.
#include "core/sym/sym_simplify.h"

#include "core/error.h"
#include "core/sym/sym_eval.h"
#include "core/sym/sym_rules.h"

#include <algorithm>

namespace tenon {

namespace rules {

namespace {

bool is_real(const Expr* e) { return e->kind == ExprKind::real; }

/// The term with factor b * (a // b), if `power` is a floor division whose divisor is in the rest.
struct DivisionTerm {
  Sum multiplier;  // term == multiplier * b * (a // b)
  const Expr* a;
  const Expr* b;
};

std::optional<DivisionTerm> division_term(const Term& term) {
  Powers powers = powers_of(term.monomial);
  for (const Power& p : powers) {
    if (p.base->op != SymOp::floordiv || p.exponent != 1) continue;
    Sum cofactor;
    const Expr* rest = monomial_of(*divide(powers, Powers{p}));
    rest ? cofactor.add_term(rest, term.factor) : cofactor.add_constant(term.factor);
    if (auto q = exact_quotient(cofactor, Sum(p.base->operand(1))))
      return DivisionTerm{std::move(*q), p.base->operand(0), p.base->operand(1)};
  }
  return std::nullopt;
}

/// One rewriting of the sum by a = b*(a//b) + a%b; false when there is none.
bool recombine(Sum& sum, const SymFacts* facts) {
  for (const Term& term : sum.terms()) {
    auto division = division_term(term);
    if (!division) continue;
    const Expr* rest = build_mod(division->a, division->b, facts);
    auto removed = multiply(division->multiplier, Sum(rest));
    auto gained = multiply(division->multiplier, Sum(division->a));
    if (!removed || !gained) continue;
    Sum result = sum.without(term);
    result.add(*gained);
    result.add(*removed, -1);
    if (result.size() >= sum.size() && !rest->is_integer(0)) continue;
    sum = std::move(result);
    return true;
  }
  return false;
}

const Expr* build_power(const Expr* base, const Expr* exponent, const SymFacts* facts) {
  if (!exponent->is_constant()) {
    const Expr* operands[] = {base, exponent};
    return intern_node(SymOp::pow, ExprKind::integer, operands);
  }
  int64_t n = exponent->integer();
  require(n >= 0, "pow: an integer to the power {}: expected an exponent of 0 or more; use reals",
          n);
  if (base->is_constant()) {
    SymValue args[] = {SymValue::of_int(base->integer()), SymValue::of_int(n)};
    auto value = apply_op(SymOp::pow, args);
    if (!value) detail::fail_overflow("**", base->integer(), n);
    return intern_integer(value->integer());
  }
  if (n <= 1) return n == 0 ? intern_integer(1) : base;
  const Expr* result = base;
  if (n <= 8) {
    for (int64_t i = 1; i < n; ++i) result = build_product(result, base, facts);
    return result;
  }
  Powers powers = base->op == SymOp::mul && base->operand(0)->is_constant() ? Powers{{base, 1}}
                                                                            : powers_of(base);
  for (Power& p : powers) p.exponent = checked_mul(p.exponent, n);
  return monomial_of(powers);
}

/// Whether a <= b for all values.
bool surely_le(const Expr* a, const Expr* b, const SymFacts* facts) {
  Sum difference(a);
  difference.add(b, -1);
  if (difference.is_constant()) return difference.constant() <= 0;
  return facts != nullptr && tight_range(difference, facts).hi <= 0;
}

void flatten(SymOp op, std::span<const Expr* const> operands, std::vector<const Expr*>& out) {
  for (const Expr* e : operands) {
    if (e->op == op) {
      flatten(op, e->operands(), out);
    } else if (std::find(out.begin(), out.end(), e) == out.end()) {
      out.push_back(e);
    }
  }
}

/// min(a, max(a, b)) = a: whether `e` is the opposite extremum, with `other` in it.
bool is_absorbed(const Expr* e, SymOp opposite, const Expr* other) {
  if (e->op != opposite) return false;
  auto inner = e->operands();
  return std::find(inner.begin(), inner.end(), other) != inner.end();
}

const Expr* build_select(const Expr* condition, const Expr* a, const Expr* b) {
  if (condition->is_constant()) return condition->is_true() ? a : b;
  if (a == b) return a;
  const Expr* operands[] = {condition, a, b};
  if (condition->op == SymOp::not_) {
    operands[0] = condition->operand(0);
    std::swap(operands[1], operands[2]);
  }
  return intern_node(SymOp::select, a->kind, operands);
}

}  // namespace

const Expr* build_sum(Sum sum, const SymFacts* facts) {
  if (sum.size() <= 32)
    for (int round = 0; round < 8 && recombine(sum, facts); ++round) {
    }
  return sum.expr();
}

const Expr* build_product(const Expr* a, const Expr* b, const SymFacts* facts) {
  Sum x(a), y(b);
  if (auto product = multiply(x, y)) return build_sum(std::move(*product), facts);
  int64_t factor = 1;  // too large to expand: a product of opaque sums
  Powers powers;
  for (const Expr* e : {a, b}) {
    Sum sum(e);
    bool single = sum.size() == 1 && !sum.is_constant();
    const Expr* monomial = single ? sum.terms()[0].monomial : e;
    if (single) factor = checked_mul(factor, sum.terms()[0].factor);
    powers = multiply(powers, powers_of(monomial));
  }
  Sum out;
  out.add_term(monomial_of(powers), factor);
  return out.expr();
}

const Expr* build_extremum(SymOp op, std::span<const Expr* const> operands, const SymFacts* facts) {
  bool is_min = op == SymOp::min;
  std::vector<const Expr*> all, kept;
  flatten(op, operands, all);
  std::sort(all.begin(), all.end(),
            [](const Expr* a, const Expr* b) { return compare_order(a, b) < 0; });
  SymOp opposite = is_min ? SymOp::max : SymOp::min;
  constexpr size_t most_compared = 64;  // each with each
  if (all.size() > most_compared) return intern_node(op, ExprKind::integer, all);
  std::vector<bool> dropped(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < all.size() && !dropped[i]; ++j) {
      if (j == i || dropped[j]) continue;  // something must remain
      dropped[i] = is_absorbed(all[i], opposite, all[j]) ||
                   (is_min ? surely_le(all[j], all[i], facts) : surely_le(all[i], all[j], facts));
    }
    if (!dropped[i]) kept.push_back(all[i]);
  }
  if (kept.size() == 1) return kept[0];
  return intern_node(op, ExprKind::integer, kept);
}

}  // namespace rules

namespace {

using Operands = std::span<const Expr* const>;
using namespace rules;

struct Shape {
  size_t least, most;
};
constexpr size_t any_number = SIZE_MAX;

Shape operand_count(SymOp op) {
  switch (op) {
    case SymOp::add:
    case SymOp::mul:
    case SymOp::min:
    case SymOp::max:
      return {1, any_number};
    case SymOp::and_:
    case SymOp::or_:
      return {0, any_number};
    case SymOp::not_:
    case SymOp::to_float:
    case SymOp::trunc:
    case SymOp::floor_to_int:
    case SymOp::ceil_to_int:
    case SymOp::round_to_int:
      return {1, 1};
    case SymOp::select:
      return {3, 3};
    case SymOp::constant:
    case SymOp::symbol:
      return {any_number, 0};
    default:
      return {2, 2};
  }
}

bool is_logic(SymOp op) { return op == SymOp::and_ || op == SymOp::or_ || op == SymOp::not_; }
bool is_comparison(SymOp op) {
  return op == SymOp::eq || op == SymOp::ne || op == SymOp::lt || op == SymOp::le;
}
bool is_rounding(SymOp op) {
  return op == SymOp::trunc || op == SymOp::floor_to_int || op == SymOp::ceil_to_int ||
         op == SymOp::round_to_int;
}

const char* kind_name(ExprKind kind) {
  return kind == ExprKind::boolean   ? "a condition"
         : kind == ExprKind::integer ? "an integer"
                                     : "a real number";
}

void check_kinds(SymOp op, Operands operands) {
  Shape shape = operand_count(op);
  require(operands.size() >= shape.least && operands.size() <= shape.most,
          "symbolic expression: operation {} takes another number of operands than {}",
          static_cast<int>(op), operands.size());
  bool equality_of_conditions = (op == SymOp::eq || op == SymOp::ne) &&
                                operands[0]->kind == ExprKind::boolean &&
                                operands[1]->kind == ExprKind::boolean;
  for (size_t i = 0; i < operands.size(); ++i) {
    bool condition = is_logic(op) || (op == SymOp::select && i == 0) || equality_of_conditions;
    bool any = op == SymOp::select && i > 0;
    bool fits = any || condition == (operands[i]->kind == ExprKind::boolean);
    require(fits, "symbolic expression: operand {} of operation {} is {}, expected {}", i,
            static_cast<int>(op), kind_name(operands[i]->kind),
            condition ? "a condition" : "a number");
  }
}

const Expr* to_real(const Expr* e) {
  if (e->kind == ExprKind::real) return e;
  if (e->is_constant()) return intern_real(static_cast<double>(e->integer()));
  return intern_node(SymOp::to_float, ExprKind::real, {&e, 1});
}

const Expr* make_integer(SymOp op, Operands operands, const SymFacts* facts) {
  switch (op) {
    case SymOp::add: {
      Sum sum;
      for (const Expr* e : operands) sum.add(e);
      return build_sum(std::move(sum), facts);
    }
    case SymOp::mul: {
      const Expr* result = operands[0];
      for (const Expr* e : operands.subspan(1)) result = build_product(result, e, facts);
      return result;
    }
    case SymOp::floordiv:
      return build_floordiv(operands[0], operands[1], facts);
    case SymOp::ceildiv:
      return build_ceildiv(operands[0], operands[1], facts);
    case SymOp::mod:
      return build_mod(operands[0], operands[1], facts);
    case SymOp::pow:
      return build_power(operands[0], operands[1], facts);
    case SymOp::min:
    case SymOp::max:
      return build_extremum(op, operands, facts);
    default:
      fail_internal("not an operation on integers");
  }
}

const Expr* make_select(Operands operands) {
  const Expr* a = operands[1];
  const Expr* b = operands[2];
  bool mixed = a->kind != b->kind;
  require(!mixed || (a->kind != ExprKind::boolean && b->kind != ExprKind::boolean),
          "where: one choice is {}, the other is {}; make them alike", kind_name(a->kind),
          kind_name(b->kind));
  return mixed ? build_select(operands[0], to_real(a), to_real(b))
               : build_select(operands[0], a, b);
}

}  // namespace

const Expr* make_expr(SymOp op, std::span<const Expr* const> operands, const SymFacts* facts) {
  check_kinds(op, operands);
  if (op == SymOp::not_) return build_not(operands[0], facts);
  if (is_logic(op)) return build_logic(op, operands, facts);
  if (op == SymOp::select) return make_select(operands);
  if (op == SymOp::to_float) return to_real(operands[0]);
  if (is_rounding(op)) return build_rounding(op, operands[0], facts);
  bool real = op == SymOp::truediv || std::any_of(operands.begin(), operands.end(), is_real);
  if (!real) {
    return is_comparison(op) ? build_comparison(op, operands[0], operands[1], facts)
                             : make_integer(op, operands, facts);
  }
  std::vector<const Expr*> reals;
  for (const Expr* e : operands) reals.push_back(to_real(e));
  if (is_comparison(op)) return build_comparison(op, reals[0], reals[1], facts);
  return build_real(op, reals, facts);
}

const Expr* substitute(const Expr* expr, const std::function<const Expr*(const Expr*)>& values,
                       const SymFacts* facts) {
  if (expr->symbol_mask == 0) return expr;
  if (expr->is_symbol()) {
    const Expr* value = values(expr);
    return value ? value : expr;
  }
  std::vector<const Expr*> operands;
  operands.reserve(expr->n_operands);
  for (const Expr* operand : expr->operands())
    operands.push_back(substitute(operand, values, facts));
  return make_expr(expr->op, operands, facts);
}

const Expr* simplify(const Expr* expr, const SymFacts* facts) {
  if (facts == nullptr) return expr;
  return substitute(
      expr,
      [facts](const Expr* e) -> const Expr* {
        const SymFacts::Symbol* symbol = facts->find(e);
        return symbol ? symbol->replacement : nullptr;
      },
      facts);
}

}  // namespace tenon
