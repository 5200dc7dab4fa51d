// What a trace took for granted about its symbols: what to check before a call, and what failed.
#include "core/sym/assumptions.h"

#include "core/error.h"
#include "core/sym/sym_rules.h"

#include <algorithm>

namespace tenon {

namespace {

/// The interval of one symbol that conditions test directly, and where each end comes from.
struct CheckedRange {
  const Expr* symbol;
  Range range;
  std::string lower_location, upper_location;

  void narrow(Range by, const std::string& location) {
    if (by.lo > range.lo) lower_location = location;
    if (by.hi < range.hi) upper_location = location;
    range = range.intersect(by);
  }
  void append_to(std::vector<RecordedGuard>& out) const {
    auto append = [&out](const Expr* a, const Expr* b, const std::string& location) {
      const Expr* operands[] = {a, b};
      out.push_back({intern_node(SymOp::le, ExprKind::boolean, operands), location});
    };
    if (range.lo != Range::no_lower) append(intern_integer(range.lo), symbol, lower_location);
    if (range.hi != Range::no_upper) append(symbol, intern_integer(range.hi), upper_location);
  }
};

/// `lo <= s` or `s <= hi` as an interval of s.
struct SymbolBound {
  const Expr* symbol;
  Range range;
};

std::optional<SymbolBound> symbol_bound(const Expr* condition) {
  if (condition->op != SymOp::le && condition->op != SymOp::lt) return std::nullopt;
  auto bound = rules::bound_of(condition);
  if (!bound || bound->form.terms().size() != 1) return std::nullopt;
  auto [symbol, factor] = bound->form.terms()[0];
  if (!symbol->is_symbol() || (factor != 1 && factor != -1)) return std::nullopt;
  Range range = factor > 0 ? Range{Range::no_lower, bound->bound} : Range::at_least(-bound->bound);
  return SymbolBound{symbol, range};
}

}  // namespace

void Assumptions::note_specializations(const SymFacts& facts, const std::string& location) {
  for (const SymFacts::Symbol& symbol : facts.symbols()) {
    const Expr* value = symbol.replacement;
    if (value == nullptr || !value->is_constant() || value->kind != ExprKind::integer) continue;
    bool noted = std::any_of(specializations.begin(), specializations.end(),
                             [&](auto& s) { return s.symbol == symbol.expr; });
    if (!noted) specializations.push_back({symbol.expr, value->integer(), location});
  }
}

std::vector<RecordedGuard> Assumptions::conditions(const SymbolTable& symbols) const {
  std::vector<CheckedRange> ranges;
  for (const SymbolInfo& info : symbols.all())
    if (info.kind == ExprKind::integer &&
        (info.is_from_input() ||
         (info.source.kind == SymbolSource::Kind::node_value && !info.unbacked)))
      ranges.push_back({info.expr, info.checked, info.location, info.location});
  std::vector<RecordedGuard> rest, out;
  for (const RecordedGuard& guard : guards) {
    auto bound = symbol_bound(guard.condition);
    auto same = std::find_if(ranges.begin(), ranges.end(),
                             [&](auto& r) { return bound && r.symbol == bound->symbol; });
    if (same != ranges.end())
      same->narrow(bound->range, guard.location);
    else
      rest.push_back(guard);
  }
  for (const CheckedRange& range : ranges) range.append_to(out);
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

void Assumptions::check_constraints(const SymbolTable& symbols) const {
  std::string lines;
  for (const std::string& violation : violations) lines += "\n  " + violation;
  for (const Specialization& fixed : specializations) {
    const SymbolInfo& symbol = symbols.info(fixed.symbol);
    if (!symbol.must_stay_dynamic) continue;
    lines += message(
        "\n  {} was marked dynamic, but the code fixes it to {}{}; remove the mark, or "
        "compute without the number",
        symbol.source_text.empty() ? symbol.name : symbol.source_text, fixed.value,
        at_location(fixed.location));
  }
  require(lines.empty(), ErrorCode::constraint_violation,
          "sizes marked dynamic became constants:{}", lines);
}

}  // namespace tenon
