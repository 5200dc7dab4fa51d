// Intervals of expressions.
//
// Problem: decide `min(s0, s1) <= s0` or `2*(s0//2) <= s0` for all values, where plain interval
//   arithmetic only sees two unrelated unbounded numbers.
// Method: interval arithmetic over the sum, intersected with what guards said about the whole form;
//   then each atom that is bounded by others is eliminated: min(a, b) is one of a, b and at most
//   both; a//b with b > 0 is (a - a%b) / b. After the substitution terms cancel and the interval of
//   the rest is the answer; the narrowest wins. Two eliminations deep. A factor that all terms have
//   is taken out first: s0*s1 - s1 is s1 * (s0 - 1).
// Cost: O(atoms * operands) sums a level; only comparisons that intervals leave open pay for it.
#include "core/sym/sym_rules.h"
#include "core/sym/sym_simplify.h"

#include <algorithm>

namespace tenon {

namespace {

using rules::range_of_sum;

Range operation_range(const Expr* e, const SymFacts* facts) {
  auto range = [&](size_t i) { return range_of(e->operand(i), facts); };
  auto fold = [&](auto combine) {
    Range out = range(0);
    for (size_t i = 1; i < e->n_operands; ++i) out = combine(out, range(i));
    return out;
  };
  switch (e->op) {
    case SymOp::mul:
      return fold(multiply_ranges);
    case SymOp::min:
      return fold(min_ranges);
    case SymOp::max:
      return fold(max_ranges);
    case SymOp::floordiv:
      return floordiv_ranges(range(0), range(1));
    case SymOp::ceildiv:
      return ceildiv_ranges(range(0), range(1));
    case SymOp::mod:
      return mod_ranges(range(0), range(1));
    case SymOp::select:
      return range(1).unite(range(2));
    case SymOp::pow:
      return e->operand(1)->is_constant() ? power_range(range(0), e->operand(1)->integer())
                                          : Range{};
    default:
      return {};
  }
}

/// What guards said about this sum as a whole.
Range known_sum_range(const Sum& sum, const SymFacts* facts) {
  if (facts == nullptr || sum.is_constant()) return {};
  int64_t divisor = sum.content();
  if (sum.terms()[0].factor < 0) divisor = -divisor;
  Range known = facts->known_range(sum.form(divisor).expr());
  return add_ranges(multiply_ranges(known, Range::only(divisor)), Range::only(sum.constant()));
}

Range divide_outwards(Range r, int64_t by) {
  Range out = floordiv_ranges(r, Range::only(by));
  return {ceildiv_ranges(Range{r.lo, r.lo}, Range::only(by)).lo, out.hi};
}

/// What every term is a multiple of; null where that is 1, and of a single term.
const Expr* factor_of_terms(const Sum& sum) {
  if (sum.terms().size() < 2 || sum.constant() != 0) return nullptr;
  Powers common = powers_of(sum.terms()[0].monomial);
  for (const Term& term : sum.terms()) {
    Powers shared;
    for (const Power& p : powers_of(term.monomial))
      for (const Power& c : common)
        if (c.base == p.base) shared.push_back({p.base, std::min(c.exponent, p.exponent)});
    common = std::move(shared);
  }
  return monomial_of(common);
}

class Tightener {
 public:
  explicit Tightener(const SymFacts* facts) : facts_(facts) {}

  Range run(const Sum& sum, int depth) {
    Range out = range_of_sum(sum, facts_);
    if (depth == 0) return out;
    out = out.intersect(without_common_factor(sum, depth));
    for (const Term& term : sum.terms()) {
      Powers powers = powers_of(term.monomial);
      for (const Power& p : powers)
        if (p.base->op == SymOp::floordiv && p.exponent == 1)
          out = out.intersect(without_division(sum, term, p.base, depth));
      if (powers.size() == 1 && powers[0].exponent == 1)
        out = out.intersect(without_choice(sum, term, depth));
    }
    return out;
  }

 private:
  Range without_common_factor(const Sum& sum, int depth) {
    const Expr* factor = factor_of_terms(sum);
    if (factor == nullptr) return {};
    Sum divisor;
    divisor.add_term(factor, 1);
    std::optional<Sum> rest = exact_quotient(sum, divisor);
    return rest ? multiply_ranges(range_of(factor, facts_), run(*rest, depth - 1)) : Range{};
  }

  Range without_choice(const Sum& sum, const Term& term, int depth) {
    const Expr* atom = term.monomial;
    bool extremum = atom->op == SymOp::min || atom->op == SymOp::max;
    if (!extremum && atom->op != SymOp::select) return {};
    bool upper = (atom->op == SymOp::min) == (term.factor > 0);  // each choice bounds from above
    Range all{Range::no_upper, Range::no_lower}, each;
    for (size_t i = extremum ? 0 : 1; i < atom->n_operands; ++i) {
      Sum chosen = sum.without(term);
      chosen.add(atom->operand(i), term.factor);
      Range r = run(chosen, depth - 1);
      all = all.unite(r);
      if (extremum && upper) each.hi = std::min(each.hi, r.hi);
      if (extremum && !upper) each.lo = std::max(each.lo, r.lo);
    }
    return all.intersect(each);
  }

  /// b * sum, with b * (a // b) replaced by a - a % b, divided by b again.
  Range without_division(const Sum& sum, const Term& term, const Expr* quotient, int depth) {
    const Expr* a = quotient->operand(0);
    const Expr* b = quotient->operand(1);
    if (a->kind != ExprKind::integer || range_of(b, facts_).lo <= 0) return {};
    Sum cofactor;  // term == cofactor * quotient
    auto rest = divide(powers_of(term.monomial), Powers{{quotient, 1}});
    const Expr* monomial = monomial_of(*rest);
    monomial ? cofactor.add_term(monomial, term.factor) : cofactor.add_constant(term.factor);

    Sum dividend(a);
    dividend.add(rules::build_mod(a, b, facts_), -1);
    if (auto exact = exact_quotient(cofactor, Sum(b))) {
      auto replaced = multiply(*exact, dividend);
      if (!replaced) return {};
      Sum out = sum.without(term);
      out.add(*replaced);
      return run(out, depth - 1);
    }
    if (!b->is_constant()) return {};
    auto replaced = multiply(cofactor, dividend);
    if (!replaced) return {};
    Sum scaled;
    scaled.add(sum.without(term), b->integer());
    scaled.add(*replaced);
    return divide_outwards(run(scaled, depth - 1), b->integer());
  }

  const SymFacts* facts_;
};

}  // namespace

Range range_of(const Expr* e, const SymFacts* facts) {
  if (e->kind != ExprKind::integer) return {};
  if (e->is_constant()) return Range::only(e->integer());
  if (e->is_symbol()) {
    const SymFacts::Symbol* symbol = facts ? facts->find(e) : nullptr;
    return symbol ? symbol->range : Range{};
  }
  if (e->op == SymOp::add || (e->op == SymOp::mul && e->operand(0)->is_constant()))
    return range_of_sum(Sum(e), facts);
  Range range = operation_range(e, facts);
  return facts ? range.intersect(facts->known_range(e)) : range;
}

Range rules::range_of_sum(const Sum& sum, const SymFacts* facts) {
  Range out = Range::only(sum.constant());
  for (const Term& t : sum.terms())
    out = add_ranges(out, multiply_ranges(range_of(t.monomial, facts), Range::only(t.factor)));
  return out.intersect(known_sum_range(sum, facts));
}

Range rules::tight_range(const Sum& sum, const SymFacts* facts) {
  return Tightener(facts).run(sum, 2);
}

}  // namespace tenon
