// What one trace knows about its symbolic sizes: symbols, ranges, equalities, guards, asserts.
//
// Problem: `if (x.size(0) > 8)` must choose a branch while tracing, yet the compiled code should
//   serve as many sizes as possible. Model: each symbolic size is a symbol with an example value
//   (its hint) and facts. A condition is answered by the facts where they suffice; otherwise with
//   the hints, and the condition becomes a guard: checked before each later call, and a new fact.
//   A symbol without a hint (read from data, "unbacked") cannot be guarded: asking for it throws
//   DataDependentError, and `check` turns conditions on it into asserts inside the graph.
// Method: facts are intervals of canonical linear forms (`s0 - s1` in [1, inf]), known divisors,
//   replacements (s1 -> 2*s0) and whole conditions known true or false (sym_facts.h).
// Cost: a repeated operation or question is one lookup in a small per-thread cache, about 10 ns.
//
// Use:
//   auto env = ShapeEnv::make();
//   SymInt s0 = env->create_symbol(8, {SymbolSource::Kind::input_size, 0, 1}, "arg0.size(1)");
//   ShapeEnvScope scope(*env);            // `if (s0 > 4)` now records guards in env
//   for (const RecordedGuard& g : env->guard_conditions()) ...
//
// Threads: one thread at a time during the trace; const functions from any thread after it.
#pragma once

#include "core/sym/assumptions.h"
#include "core/sym/sym_facts.h"
#include "core/sym/sym_int.h"
#include "core/sym/symbol_table.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace tenon {

enum class SymbolPolicy : uint8_t {
  fixed,     ///< no symbol: the example value as a constant
  duck,      ///< shares the symbol of an earlier duck size with the same example value
  own,       ///< a symbol of its own
  unbacked,  ///< a symbol without example value: never 0/1-specialised, never guarded
};

struct SymbolOptions {
  SymbolPolicy policy = SymbolPolicy::duck;
  bool specialize_zero = true;  ///< example value 0 gives a constant
  bool specialize_one = true;   ///< example value 1 gives a constant
  bool is_size = true;          ///< never negative; false for plain numbers
  /// Marked by the user: check_constraints() fails if it was fixed. Unbacked: nobody may ask for its
  /// value, not even for a graph break.
  bool must_stay_dynamic = false;
  Range range = {};           ///< further bounds, such as a mark's; checked before each call
  std::string shape_id = {};  ///< unbacked sizes with the same one share a symbol
  std::optional<int64_t> cost_hint = {};  ///< see cost_hint.h
  const Expr* stands_for = nullptr;       ///< of a named value, see SymbolInfo

  /// The values that a symbol with this example value, if it has one, may take; throws if the
  /// example lies outside.
  Range range_for(std::optional<int64_t> hint, const std::string& text, bool size_oblivious) const;

  /// An integer argument: any value, no 0/1 rule.
  static SymbolOptions for_number() {
    return {SymbolPolicy::own, false, false, false, false, {}, {}};
  }
};

class ShapeEnv {
 public:
  static std::shared_ptr<ShapeEnv> make() { return std::shared_ptr<ShapeEnv>(new ShapeEnv); }
  ShapeEnv(const ShapeEnv&) = delete;
  ShapeEnv& operator=(const ShapeEnv&) = delete;

  // ---- symbols
  /// A size or integer argument with example value `hint`; a constant under the 0/1 rule.
  SymInt create_symbol(int64_t hint, SymbolSource source, std::string source_text,
                       const SymbolOptions& options = {});
  SymFloat create_float(double hint, SymbolSource source, std::string source_text);
  /// A value that only the run knows. Sizes: pass Range::at_least(0) and call mark_size_like.
  SymInt create_unbacked(Range range = {}, SymbolSource source = {}, std::string source_text = {}) {
    return SymInt::from_expr(
        add_unbacked(ExprKind::integer, range, source, std::move(source_text)));
  }
  SymFloat create_unbacked_float(SymbolSource source = {}, std::string source_text = {}) {
    return SymFloat::from_expr(add_unbacked(ExprKind::real, {}, source, std::move(source_text)));
  }
  SymBool create_unbacked_bool(SymbolSource source = {}, std::string source_text = {}) {
    return SymBool::from_expr(add_unbacked(ExprKind::boolean, {}, source, std::move(source_text)));
  }
  /// The next values that only the run knows are these: what made them is called again.
  void make_again(std::vector<const Expr*> symbols) { made_again_ = std::move(symbols); }
  /// The symbol written `name`, for readers of graph text; made with the given facts if absent.
  const Expr* declare_symbol(std::string_view name, ExprKind kind, std::optional<SymValue> hint,
                             Range range, SymbolSource source, std::string source_text);
  void mark_size_like(SymInt value);
  /// The value of an unbacked symbol, seen in a run: from here on a symbol with that example value
  /// stands for it.
  void give_value(const Expr* unbacked, SymValue value);
  /// Whether it was called: expressions that were made before may have symbols that others stand
  /// for.
  bool has_given_values() const { return !given_.empty(); }
  /// The same expression over the symbols that stand for those by now.
  const Expr* renewed(const Expr* expr) const;
  /// What is found at `source` must equal `value`; a plain number needs no entry and adds none.
  void expect_source(SymbolSource source, std::string source_text, SymInt value) {
    if (value.is_symbolic())
      taken_.equalities.push_back({source, std::move(source_text), value.expr()});
  }

  std::span<const SymbolInfo> symbols() const { return symbols_.all(); }
  const SymbolInfo& info(const Expr* symbol) const { return symbols_.info(symbol); }
  const Expr* find_symbol(std::string_view name) const {
    const SymbolInfo* found = symbols_.find(name);
    return found ? found->expr : nullptr;
  }
  /// Whether every symbol inside was made here.
  bool owns(const Expr* expr) const { return symbols_.owns(expr); }
  bool has_unbacked(const Expr* expr) const { return symbols_.has_unbacked(expr); }
  /// The same expression with what named values stand for.
  const Expr* spelled_out(const Expr* expr) const { return symbols_.spelled_out(expr); }

  // ---- questions that may record guards
  /// The value of a condition: from facts, else from the hints, then guarded.
  bool evaluate(const Expr* condition);
  /// The value of a number, fixed by a guard unless it is known.
  int64_t specialize(const Expr* expr);
  double specialize_float(const Expr* expr);
  /// Like evaluate; the given answer where an unbacked symbol leaves it open.
  bool guard_or(const Expr* condition, bool fallback);
  bool guard_or_false(const Expr* condition) { return guard_or(condition, false); }
  bool guard_or_true(const Expr* condition) { return guard_or(condition, true); }
  /// Whether a condition of an operation holds: decided by a guard, but on data-dependent values
  /// (or under Rules::prefer_asserts) taken for true and asserted at run time.
  bool expect(const Expr* condition);
  /// Demands a condition: a guard when it has hints, else a runtime assert. Throws if it is false.
  void check(const Expr* condition, std::string message = {});

  // ---- questions that never record
  std::optional<bool> statically_known(const Expr* condition) const;
  /// The same, taking size-like unbacked symbols to be at least 2.
  std::optional<bool> statically_known_size_oblivious(const Expr* condition) const;
  const Expr* simplify(const Expr* expr) const;
  SymInt simplify(SymInt value) const {
    return value.is_symbolic() ? as_sym_int(simplify(value.expr())) : value;
  }
  Range range(const Expr* expr) const;
  /// With the example values; nothing if an unbacked symbol is inside or it overflows.
  std::optional<SymValue> hint(const Expr* expr) const;
  std::optional<int64_t> int_hint(SymInt value) const;

  // ---- what was taken for granted
  /// Everything to test before a call: ranges of symbols first, then guards in order.
  std::vector<RecordedGuard> guard_conditions() const { return taken_.conditions(symbols_); }
  std::span<const RecordedGuard> guards() const { return taken_.guards; }
  std::span<const RuntimeAssert> runtime_asserts() const { return taken_.asserts; }
  /// All conditions that facts rest on, guards and asserts, over the symbols that stand for others
  /// by now.
  std::vector<const Expr*> assumptions() const;
  std::span<const SourceEquality> source_equalities() const { return taken_.equalities; }
  std::span<const Specialization> specializations() const { return taken_.specializations; }
  /// Throws ConstraintViolationError if a size marked dynamic was fixed.
  void check_constraints() const { taken_.check_constraints(symbols_); }

  /// Asked for the value of an expression with unbacked symbols before DataDependentError is
  /// thrown; a value is used as it is, without a guard.
  using Materialize = std::function<std::optional<SymValue>(const Expr*)>;
  void set_materialize(Materialize materialize) { materialize_ = std::move(materialize); }
  /// Asked whether numbers that are computed from number arguments alone are told without a guard,
  /// since who asks does so on every call.
  void set_tells_arguments(std::function<bool()> tells) { tells_arguments_ = std::move(tells); }

  /// How questions are answered; to be set before the first symbol is made.
  struct Rules {
    /// Sizes with an example follow the rules of those without: no 0/1 rule, and guard_or answers
    /// without a guard.
    bool size_oblivious = false;
    bool prefer_asserts = false;  ///< expect() and check() assert instead of guarding
    /// An op that could only guess what depends on data throws DataDependentError instead.
    bool ask_when_open = false;
  };
  void set_rules(Rules rules) { rules_ = rules; }
  bool asks_when_open() const { return rules_.ask_when_open; }

  /// Who is told of new symbols and guards, and when a symbol is given up. To be set first.
  struct Watch {
    std::function<void(const SymbolInfo&)> symbol_made;
    std::function<void(const Expr* condition)> guard_added;
    int64_t most_guards = -1;  ///< a symbol in more guards becomes a constant; -1: never
  };
  void set_watch(Watch watch) { watch_ = std::move(watch); }

  const SymFacts& facts() const { return facts_; }
  std::string text(const Expr* expr) const { return symbols_.text(expr); }
  /// With source texts for symbols: "arg0.size(1) <= 5".
  std::string source_text(const Expr* expr) const { return symbols_.source_text(expr); }

 private:
  ShapeEnv() = default;
  std::vector<const Expr*> made_again_;
  const Expr* add_symbol(SymbolInfo info, Range range);
  const Expr* add_unbacked(ExprKind kind, Range range, SymbolSource source,
                           std::string source_text);
  SymValue value_of(const Expr* expr, bool may_be_told = false);
  void record_guard(const Expr* condition);
  void add_assert(const Expr* condition, std::string message);
  void give_up_symbols(const Expr* condition);

  SymbolTable symbols_;
  SymFacts facts_;
  Assumptions taken_;
  std::map<int64_t, const Expr*> duck_;             // example value -> symbol
  std::map<std::string, const Expr*> of_shape_id_;  // unbacked sizes
  Materialize materialize_;
  std::function<bool()> tells_arguments_;
  Watch watch_;
  Rules rules_;
  std::map<const Expr*, int64_t> n_guards_;  // by symbol, where there is a limit
  std::set<const Expr*> given_;              // unbacked symbols whose values a run has shown
};

}  // namespace tenon
