// Rules of comparisons and of logic.
//
// Model: an integer comparison is `form op constant` after subtracting one side from the other,
//   dividing by the gcd of the factors and rounding the constant: 2*s0 < 5 is s0 < 3. Negative
//   terms are then moved to the right: `s0 - s1 <= -3` is written `s0 + 3 <= s1`. A comparison of a
//   quotient with a constant becomes one of the dividend: `a // 4 <= 2` is `a <= 11`.
// With facts: the interval of the form decides where it can; equal to an earlier guard is known.
#include "core/error.h"
#include "core/sym/sym_eval.h"
#include "core/sym/sym_rules.h"
#include "core/sym/sym_simplify.h"

#include <algorithm>
#include <utility>

namespace tenon::rules {

namespace {

using Operands = std::span<const Expr* const>;

const Expr* boolean(bool value) { return intern_boolean(value); }

const Expr* truth_node(SymOp op, const Expr* a, const Expr* b) {
  const Expr* operands[] = {a, b};
  return intern_node(op, ExprKind::boolean, operands);
}

bool is_equality(SymOp op) { return op == SymOp::eq || op == SymOp::ne; }

const Expr* known_or(const Expr* condition, const SymFacts* facts) {
  if (facts == nullptr) return condition;
  auto known = facts->known(condition);
  return known ? boolean(*known) : condition;
}

std::optional<bool> decide(SymOp op, Range range, int64_t k) {
  bool below = range.hi<k, above = range.lo> k;
  if (is_equality(op)) {
    if (below || above) return op == SymOp::ne;
    if (range.is_single()) return op == SymOp::eq;
    return std::nullopt;
  }
  if (below || (op == SymOp::le && range.hi == k)) return true;
  if (above || (op == SymOp::lt && range.lo == k)) return false;
  return std::nullopt;
}

/// A side without bound is "no information", not the number INT64_MAX.
std::optional<bool> decide_by_facts(SymOp op, const Sum& form, int64_t k, const SymFacts* facts) {
  if (k == Range::no_lower || k == Range::no_upper) return std::nullopt;
  return decide(op, tight_range(form, facts), k);
}

/// `form op k` with negative terms and a negative constant on the other side.
const Expr* two_sided(SymOp op, const Sum& form, int64_t k) {
  Sum left, right;
  for (const Term& t : form.terms()) {
    if (t.factor > 0)
      left.add_term(t.monomial, t.factor);
    else
      right.add_term(t.monomial, checked_mul(t.factor, -1));
  }
  bool to_left = left.is_constant() || (!right.is_constant() && k < 0);
  if (to_left)
    left.add_constant(checked_mul(k, -1));
  else
    right.add_constant(k);
  return truth_node(op, left.expr(), right.expr());
}

/// `±(a // b) op k`, b a positive constant, as a comparison of a.
const Expr* compare_quotient(SymOp op, const Sum& form, int64_t k, const SymFacts* facts) {
  if (is_equality(op) || form.terms().size() != 1) return nullptr;
  const auto& [quotient, sign] = form.terms()[0];
  if (quotient->op != SymOp::floordiv || (sign != 1 && sign != -1)) return nullptr;
  const Expr* b = quotient->operand(1);
  if (!b->is_constant() || b->integer() <= 0) return nullptr;
  if (op == SymOp::lt) k = checked_add(k, -1);  // now ±q <= k
  if (sign > 0) {
    const Expr* limit = intern_integer(checked_mul(checked_add(k, 1), b->integer()));
    return build_comparison(SymOp::lt, quotient->operand(0), limit, facts);
  }
  const Expr* limit = intern_integer(checked_mul(checked_mul(k, -1), b->integer()));
  return build_comparison(SymOp::le, limit, quotient->operand(0), facts);
}

const Expr* compare_integers(SymOp op, const Expr* a, const Expr* b, const SymFacts* facts) {
  Sum difference = Sum(build_sum(Sum(a) - Sum(b), facts));
  int64_t k = checked_mul(difference.constant(), -1);
  if (difference.is_constant()) return boolean(*decide(op, Range::only(0), k));
  int64_t g = difference.content();
  if (is_equality(op)) {
    if (k % g != 0) return boolean(op == SymOp::ne);
    if (difference.terms()[0].factor < 0) g = -g;
  }
  Sum form = difference.form(g);
  k = op == SymOp::lt ? checked_mul(detail::floordiv(checked_mul(k, -1), g), -1)
      : g == -1       ? checked_mul(k, -1)
                      : detail::floordiv(k, g);
  if (const Expr* simpler = compare_quotient(op, form, k, facts)) return simpler;
  if (auto decided = decide_by_facts(op, form, k, facts)) return boolean(*decided);
  return known_or(two_sided(op, form, k), facts);
}

const Expr* integer_of(const Expr* real) {
  if (real->op == SymOp::to_float) return real->operand(0);
  if (!real->is_constant() || real->real() != static_cast<double>(static_cast<int32_t>(
                                                  std::clamp(real->real(), -1e9, 1e9))))
    return nullptr;
  return intern_integer(static_cast<int64_t>(real->real()));
}

const Expr* compare_reals(SymOp op, const Expr* a, const Expr* b, const SymFacts* facts) {
  if (a->is_constant() && b->is_constant()) {
    SymValue args[] = {SymValue::of_real(a->real()), SymValue::of_real(b->real())};
    return boolean(apply_op(op, args)->integer() != 0);
  }
  const Expr* x = integer_of(a);
  const Expr* y = integer_of(b);
  if (x != nullptr && y != nullptr) return build_comparison(op, x, y, facts);
  if (is_equality(op) && compare_order(a, b) > 0) std::swap(a, b);
  return known_or(truth_node(op, a, b), facts);
}

const Expr* compare_booleans(SymOp op, const Expr* a, const Expr* b, const SymFacts* facts) {
  const Expr* both[] = {a, b};
  const Expr* neither[] = {build_not(a, facts), build_not(b, facts)};
  const Expr* cases[] = {build_logic(SymOp::and_, both, facts),
                         build_logic(SymOp::and_, neither, facts)};
  const Expr* equal = build_logic(SymOp::or_, cases, facts);
  return op == SymOp::eq ? equal : build_not(equal, facts);
}

void flatten(SymOp op, Operands operands, std::vector<const Expr*>& out) {
  for (const Expr* e : operands) {
    if (e->op == op)
      flatten(op, e->operands(), out);
    else if (std::find(out.begin(), out.end(), e) == out.end())
      out.push_back(e);
  }
}

}  // namespace

const Expr* build_comparison(SymOp op, const Expr* a, const Expr* b, const SymFacts* facts) {
  if (a->kind == ExprKind::real) return compare_reals(op, a, b, facts);
  if (a->kind == ExprKind::boolean) return compare_booleans(op, a, b, facts);
  return compare_integers(op, a, b, facts);
}

const Expr* build_logic(SymOp op, Operands operands, const SymFacts* facts) {
  bool is_and = op == SymOp::and_;
  std::vector<const Expr*> all, kept;
  flatten(op, operands, all);
  for (const Expr* e : all) {
    e = known_or(e, facts);
    if (e->is_constant() && e->is_true() == is_and) continue;
    if (e->is_constant()) return e;
    kept.push_back(e);
  }
  // Negations of large conditions would be built again at each level above them.
  constexpr uint32_t most_negated = 64;
  for (const Expr* e : kept)
    if (e->tree_nodes <= most_negated &&
        std::find(kept.begin(), kept.end(), build_not(e, nullptr)) != kept.end())
      return boolean(!is_and);
  if (kept.empty()) return boolean(is_and);
  if (kept.size() == 1) return kept[0];
  std::sort(kept.begin(), kept.end(),
            [](const Expr* x, const Expr* y) { return compare_order(x, y) < 0; });
  return known_or(intern_node(op, ExprKind::boolean, kept), facts);
}

const Expr* build_not(const Expr* a, const SymFacts* facts) {
  if (a->is_constant()) return boolean(a->is_false());
  switch (a->op) {
    case SymOp::not_:
      return a->operand(0);
    case SymOp::eq:
      return known_or(truth_node(SymOp::ne, a->operand(0), a->operand(1)), facts);
    case SymOp::ne:
      return known_or(truth_node(SymOp::eq, a->operand(0), a->operand(1)), facts);
    case SymOp::and_:
    case SymOp::or_: {
      std::vector<const Expr*> operands;
      for (const Expr* e : a->operands()) operands.push_back(build_not(e, facts));
      return build_logic(a->op == SymOp::and_ ? SymOp::or_ : SymOp::and_, operands, facts);
    }
    case SymOp::lt:
    case SymOp::le:
      if (a->operand(0)->kind != ExprKind::integer) break;  // of reals: both may fail for NaN
      return build_comparison(a->op == SymOp::lt ? SymOp::le : SymOp::lt, a->operand(1),
                              a->operand(0), facts);
    default:
      break;
  }
  return known_or(intern_node(SymOp::not_, ExprKind::boolean, {&a, 1}), facts);
}

std::optional<Bound> bound_of(const Expr* comparison) {
  bool compares =
      comparison->op == SymOp::lt || comparison->op == SymOp::le || is_equality(comparison->op);
  if (!compares || comparison->operand(0)->kind != ExprKind::integer) return std::nullopt;
  Sum difference = Sum(comparison->operand(0)) - Sum(comparison->operand(1));
  int64_t k = checked_mul(difference.constant(), -1);
  if (comparison->op == SymOp::lt) k = checked_add(k, -1);
  return Bound{difference.form(1), k};
}

}  // namespace tenon::rules
