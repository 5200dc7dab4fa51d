// Learning from conditions: intervals of linear forms, replacements, divisors.
//
// Problem: after `s0 == 2*s1` and `s1 >= 3` is taken for granted, questions such as `s0 % 2 == 0`
//   or `s0 > 5` must be answered without asking the example values.
// Model: every integer comparison bounds a linear form in canonical shape (leading factor positive,
//   gcd 1, no constant), so one interval per form holds all comparisons about it, and a comparison
//   implied by a stronger one is found at once. Equalities that can be solved for a symbol replace
//   it everywhere; `a % b == 0` is kept as "b divides a"; everything else is kept as it is.
// Method: a new bound is propagated to the symbols of all forms until nothing changes (at most
//   eight rounds). A symbol with one value left is replaced by it. After the replacement of a symbol
//   that facts mention they are rewritten, so that only living symbols occur in them; replacements
//   are fully applied to each other, so that a look-up is one step.
// Cost: O(forms * terms) a round; a trace has some tens of forms, and many sizes that only equal
//   one before them.
#include "core/sym/sym_facts.h"

#include "core/sym/sym_rules.h"
#include "core/sym/sym_simplify.h"

#include <algorithm>
#include <atomic>
#include <tuple>
#include <utility>

namespace tenon {

namespace {

constexpr int max_rounds = 8;

uint64_t next_stamp() {
  static std::atomic<uint64_t> counter{0};
  return counter.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// atoms r with factor * atom in `range`.
Range divide_range(Range range, int64_t factor) {
  Range by = Range::only(factor);
  if (factor < 0) return divide_range(negate_range(range), -factor);
  return {ceildiv_ranges({range.lo, range.lo}, by).lo,
          floordiv_ranges({range.hi, range.hi}, by).hi};
}

}  // namespace

SymFacts::SymFacts() : stamp_(next_stamp()) {}

void SymFacts::changed() { stamp_ = next_stamp(); }

const SymFacts::Symbol* SymFacts::find(const Expr* symbol) const {
  uint32_t id = symbol->symbol();
  auto it = std::partition_point(symbols_.begin(), symbols_.end(),
                                 [id](const Symbol& s) { return s.expr->symbol() < id; });
  return it != symbols_.end() && it->expr == symbol ? &*it : nullptr;
}

SymFacts::Symbol* SymFacts::find(const Expr* symbol) {
  return const_cast<Symbol*>(std::as_const(*this).find(symbol));
}

std::optional<bool> SymFacts::known(const Expr* condition) const {
  auto it = conditions_.find(condition);
  return it == conditions_.end() ? std::nullopt : std::optional<bool>(it->second);
}

Range SymFacts::known_range(const Expr* form) const {
  if (form->is_symbol()) {
    const Symbol* symbol = find(form);
    return symbol ? symbol->range : Range{};
  }
  auto it = form_places_.find(form);
  return it == form_places_.end() ? Range{} : forms_[it->second].range;
}

void SymFacts::assume(const Expr* condition) {
  learn(condition);
  settle();
}

void SymFacts::give(const Expr* symbol, const Expr* value) {
  replace(*find(symbol), simplify(value, this));
  settle();
}

void SymFacts::narrow_symbol(const Expr* symbol, Range range) {
  narrow(symbol, range);
  settle();
}

void SymFacts::learn(const Expr* condition) {
  if (condition->is_constant()) return;
  if (condition->op == SymOp::and_) {
    for (const Expr* operand : condition->operands()) learn(operand);
    return;
  }
  bool comparison = condition->op == SymOp::eq || condition->op == SymOp::ne ||
                    condition->op == SymOp::lt || condition->op == SymOp::le;
  if (comparison && condition->operand(0)->kind == ExprKind::integer)
    return learn_comparison(condition);
  if (condition->op == SymOp::eq) learn_real_equal(condition);
  learn_condition(condition);
}

void SymFacts::learn_condition(const Expr* condition) {
  const Expr* negation = rules::build_not(condition, nullptr);
  if (!conditions_.try_emplace(condition, true).second) return;
  conditions_.try_emplace(negation, false);
  assumed_.push_back(condition);
  mentioned_.add_those_of(condition);
  changed();
}

void SymFacts::learn_real_equal(const Expr* condition) {
  // 0 == -0, so an equality with zero does not tell the value.
  for (auto [a, b] : {std::pair(0, 1), std::pair(1, 0)}) {
    const Expr* value = condition->operand(b);
    Symbol* symbol = condition->operand(a)->is_symbol() ? find(condition->operand(a)) : nullptr;
    if (symbol == nullptr || !value->is_constant() || value->real() == 0) continue;
    replace(*symbol, value);
    return;
  }
}

void SymFacts::learn_comparison(const Expr* condition) {
  auto [sum, bound] = *rules::bound_of(condition);
  if (sum.is_constant()) return;
  bool negative = sum.terms()[0].factor < 0;
  const Expr* form = (negative ? sum.form(-1) : sum).expr();
  int64_t value = negative ? -bound : bound;
  if (condition->op == SymOp::eq) return learn_equal(form, value);
  if (condition->op == SymOp::ne) return learn_different(condition, form, value);
  narrow(form, negative ? Range{value, Range::no_upper} : Range{Range::no_lower, value});
}

void SymFacts::learn_different(const Expr* condition, const Expr* form, int64_t value) {
  learn_condition(condition);
  Range range = range_of(form, this);
  if (range.lo == value) narrow(form, Range::at_least(value + 1));
  if (range.hi == value) narrow(form, {Range::no_lower, value - 1});
}

void SymFacts::learn_equal(const Expr* form, int64_t value) {
  if (form->op == SymOp::mod) {
    Sum multiple(form->operand(0));
    multiple.add_constant(-value);
    divisors_.add(multiple.expr(), form->operand(1));
    mentioned_.add_those_of(form);
    changed();
  }
  // The replacement of a symbol in a sum says all that the sum's range would.
  if (form->is_symbol()) narrow(form, Range::only(value));
  if (!try_replace(form, value)) narrow(form, Range::only(value));
}

/// Takes `expr` to lie in `range`; false if that was known, or contradicts what is known.
bool SymFacts::narrow(const Expr* expr, Range range) {
  Sum sum(expr);
  if (sum.is_constant()) return false;
  range = add_ranges(range, negate_range(Range::only(sum.constant())));
  int64_t divisor = sum.content();
  if (sum.terms()[0].factor < 0) divisor = -divisor;
  return narrow_form(sum.form(divisor).expr(), divide_range(range, divisor));
}

bool SymFacts::narrow_form(const Expr* form, Range range) {
  Range known = range_of(form, this);
  Range both = known.intersect(range);
  if (both == known || both.is_empty()) return false;
  if (form->is_symbol()) {
    Symbol* symbol = find(form);
    if (symbol == nullptr) return false;
    symbol->range = both;
  } else {
    auto [place, added] = form_places_.try_emplace(form, forms_.size());
    if (added) {
      forms_.push_back({form, both});
      mentioned_.add_those_of(form);
    } else {
      forms_[place->second].range = both;
    }
  }
  changed();
  return true;
}

/// What bounds of min, max and quotients say about their operands.
bool SymFacts::narrow_inside(const Expr* atom, Range range) {
  bool changed = false;
  if (atom->op == SymOp::min || atom->op == SymOp::max) {
    Range each =
        atom->op == SymOp::min ? Range::at_least(range.lo) : Range{Range::no_lower, range.hi};
    for (const Expr* operand : atom->operands()) changed |= narrow(operand, each);
  } else if (atom->op == SymOp::floordiv && atom->operand(1)->is_constant() &&
             atom->operand(1)->integer() > 0) {
    int64_t b = atom->operand(1)->integer();
    Range scaled = multiply_ranges(range, Range::only(b));
    if (scaled.hi != Range::no_upper) scaled.hi = add_ranges(scaled, Range::only(b - 1)).hi;
    changed = narrow(atom->operand(0), scaled);
  }
  return changed;
}

bool SymFacts::propagate_form(const FormRange& fact) {
  bool changed = false;
  Sum sum(fact.form);
  for (const Term& term : sum.terms()) {
    Range rest = rules::range_of_sum(sum.without(term), this);
    Range range = divide_range(add_ranges(fact.range, negate_range(rest)), term.factor);
    if (term.monomial->is_symbol())
      changed |= narrow(term.monomial, range);
    else
      changed |= narrow_inside(term.monomial, range);
  }
  return changed;
}

void SymFacts::settle() {
  for (int round = 0; round < max_rounds; ++round) {
    bool changed = false;
    std::vector<FormRange> facts = forms_;
    for (const FormRange& fact : facts) changed |= propagate_form(fact);
    changed |= fix_single_values();
    if (!changed) return;
  }
}

bool SymFacts::fix_single_values() {
  bool fixed = false;
  for (Symbol& symbol : symbols_) {
    if (symbol.replacement != nullptr || !symbol.range.is_single()) continue;
    if (symbol.expr->kind != ExprKind::integer) continue;
    replace(symbol, intern_integer(symbol.range.lo));
    fixed = true;
  }
  return fixed;
}

/// A backed symbol is never given by unbacked ones, an unbacked one only by older ones.
bool SymFacts::may_replace(const Symbol& symbol, const Expr* replacement) const {
  if (contains(replacement, symbol.expr)) return false;
  for (const Expr* inside : free_symbols(replacement)) {
    const Symbol* other = find(inside);
    if (other == nullptr) return false;
    if (other->unbacked && (!symbol.unbacked || other->expr->symbol() > symbol.expr->symbol()))
      return false;
  }
  return true;
}

bool SymFacts::try_replace(const Expr* form, int64_t value) {
  Symbol* best = nullptr;
  const Expr* best_replacement = nullptr;
  auto rank = [](const Symbol& s) { return std::tuple(s.unbacked, s.derived, s.expr->symbol()); };
  Sum sum(form);
  for (const Term& term : sum.terms()) {
    if ((term.factor != 1 && term.factor != -1) || !term.monomial->is_symbol()) continue;
    Symbol* symbol = find(term.monomial);
    if (symbol == nullptr || (best != nullptr && rank(*best) > rank(*symbol))) continue;
    Sum solution(checked_mul(value, term.factor));
    solution.add(sum.without(term), -term.factor);
    const Expr* replacement = rules::build_sum(std::move(solution), this);
    if (!may_replace(*symbol, replacement)) continue;
    best = symbol;
    best_replacement = replacement;
  }
  if (best == nullptr) return false;
  replace(*best, best_replacement);
  return true;
}

void SymbolSet::add_those_of(const Expr* expr) {
  for (const Expr* symbol : free_symbols(expr)) symbols_.insert(symbol);
}

/// `replacement` is simplified under these facts. What mentions the symbol is rewritten.
void SymFacts::replace(Symbol& symbol, const Expr* replacement) {
  symbol.replacement = replacement;
  mentioned_.add_those_of(replacement);
  changed();
  if (mentioned_.contains(symbol.expr)) return rewrite();
  if (replacement->kind == ExprKind::integer) narrow(replacement, symbol.range);
}

/// Applies all replacements to the facts and to each other.
void SymFacts::rewrite() {
  mentioned_.clear();
  for (Symbol& symbol : symbols_) {
    if (symbol.replacement == nullptr) continue;
    symbol.replacement = simplify(symbol.replacement, this);
    mentioned_.add_those_of(symbol.replacement);
  }
  auto forms = std::exchange(forms_, {});
  auto assumed = std::exchange(assumed_, {});
  SymDivisors divisors = std::exchange(divisors_, {});
  form_places_.clear();
  conditions_.clear();
  for (const FormRange& fact : forms) narrow(simplify(fact.form, this), fact.range);
  for (const Symbol& symbol : symbols_)
    if (symbol.replacement != nullptr && symbol.replacement->kind == ExprKind::integer)
      narrow(symbol.replacement, symbol.range);
  for (const auto& [value, divisor] : divisors.pairs()) {
    const Expr* rest = rules::build_mod(simplify(value, this), simplify(divisor, this), this);
    if (rest->op == SymOp::mod)
      learn(rules::build_comparison(SymOp::eq, rest, intern_integer(0), this));
  }
  for (const Expr* condition : assumed) learn(simplify(condition, this));
  changed();
}

}  // namespace tenon
