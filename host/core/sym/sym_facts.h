// What is known about symbols: intervals of linear forms, divisors, replacements, conditions.
#pragma once

#include "core/sym/sym_divisors.h"
#include "core/sym/sym_expr.h"
#include "core/sym/sym_range.h"

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tenon {

/// Symbols of expressions.
class SymbolSet {
 public:
  void add_those_of(const Expr* expr);
  bool contains(const Expr* symbol) const { return symbols_.contains(symbol); }
  void clear() { symbols_.clear(); }

 private:
  std::unordered_set<const Expr*> symbols_;
};

/// Facts of one environment. A copy is an independent snapshot (for "what if" questions).
/// Threads: one writer; readers only while nobody writes.
class SymFacts {
 public:
  SymFacts();

  /// An equality replaces unbacked symbols first, then derived ones, then the youngest.
  struct Symbol {
    const Expr* expr = nullptr;
    Range range;
    const Expr* replacement = nullptr;  ///< null: stands for itself
    bool unbacked = false;
    bool derived = false;  ///< cannot be read from an input
  };
  /// Symbols come in ascending order of their numbers.
  void add_symbol(const Symbol& symbol) { symbols_.push_back(symbol); }
  const Symbol* find(const Expr* symbol) const;
  bool owns(const Expr* symbol) const { return find(symbol) != nullptr; }
  /// Symbols in order of creation.
  std::span<const Symbol> symbols() const { return symbols_; }

  /// Takes a condition, simplified under these facts, for true, with all that follows from it.
  void assume(const Expr* condition);
  /// `value` stands for `symbol`, which has no replacement yet, from here on.
  void give(const Expr* symbol, const Expr* value);
  /// Intersects the known range of a symbol.
  void narrow_symbol(const Expr* symbol, Range range);

  /// Condition known as a whole, by an earlier guard; not by ranges.
  std::optional<bool> known(const Expr* condition) const;
  /// What was learned about this linear form (leading factor positive, no constant, gcd 1).
  Range known_range(const Expr* form) const;
  bool is_divisible(const Expr* value, const Expr* divisor) const {
    return divisors_.divide(value, divisor);
  }

  /// Changes whenever a fact does; unique in the process, so it may key caches.
  uint64_t stamp() const { return stamp_; }

 private:
  struct FormRange {
    const Expr* form;
    Range range;
  };
  Symbol* find(const Expr* symbol);
  void changed();
  void learn(const Expr* condition);
  void learn_comparison(const Expr* condition);
  void learn_equal(const Expr* form, int64_t value);
  void learn_different(const Expr* condition, const Expr* form, int64_t value);
  void learn_condition(const Expr* condition);
  void learn_real_equal(const Expr* condition);
  bool narrow(const Expr* expr, Range range);
  bool narrow_form(const Expr* form, Range range);
  bool narrow_inside(const Expr* atom, Range range);
  bool propagate_form(const FormRange& fact);
  void settle();
  bool fix_single_values();
  bool try_replace(const Expr* form, int64_t value);
  bool may_replace(const Symbol& symbol, const Expr* replacement) const;
  void replace(Symbol& symbol, const Expr* replacement);
  void rewrite();

  std::vector<Symbol> symbols_;   // ascending numbers
  std::vector<FormRange> forms_;  // in the order learned
  std::unordered_map<const Expr*, size_t> form_places_;
  std::vector<const Expr*> assumed_;                  // conditions known as a whole
  std::unordered_map<const Expr*, bool> conditions_;  // the same and their negations
  SymDivisors divisors_;
  SymbolSet mentioned_;  // in these facts or in replacements
  uint64_t stamp_ = 0;
};

}  // namespace tenon
