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
// Threads: one thread at a time until freeze(); const functions from any thread after it.
#pragma once

#include "core/sym/sym_eval.h"
#include "core/sym/sym_expr.h"
#include "core/sym/sym_facts.h"
#include "core/sym/sym_range.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace tenon {

/// Where a value can be read again before a later call; input_item is the one element of an input.
struct SymbolSource {
  enum class Kind : uint8_t {
    none,
    input_size,
    input_stride,
    input_value,
    input_item,
    node_value,
  };
  Kind kind = Kind::none;
  uint32_t index = 0;  ///< input, or node
  uint32_t dim = 0;    ///< for sizes and strides
  friend auto operator<=>(const SymbolSource&, const SymbolSource&) = default;
};

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
  bool must_stay_dynamic =
      false;         ///< marked by the user: check_constraints() fails if it was fixed
  Range range = {};  ///< further bounds, such as a mark's; checked before each call

  /// An integer argument: any value, no 0/1 rule.
  static SymbolOptions for_number() { return {SymbolPolicy::own, false, false, false, false, {}}; }
};

struct SymbolInfo {
  const Expr* expr = nullptr;
  std::string name = {};  ///< s0 from inputs, u0 unbacked, zf0 floats
  ExprKind kind = ExprKind::integer;
  bool unbacked = false;
  bool size_like = false;  ///< unbacked and used as a size
  bool must_stay_dynamic = false;
  std::optional<SymValue> hint = {};
  Range checked = {};  ///< declared, tested before each call; guards may narrow it
  SymbolSource source = {};
  std::string source_text = {};  ///< "arg0.size(1)"
  std::string location = {};     ///< user line that made it

  /// Whether the arguments of a call tell its value.
  bool is_from_input() const {
    return source.kind != SymbolSource::Kind::none && source.kind != SymbolSource::Kind::node_value;
  }
  /// Whether its value is known before a graph runs; otherwise a node of the graph gives it.
  bool is_known_before_run() const { return !unbacked || is_from_input(); }
};

struct RecordedGuard {
  const Expr* condition;
  std::string location;  ///< user's file and line, where known
};

/// A condition on unbacked symbols, to be tested inside the graph.
struct RuntimeAssert {
  const Expr* condition;
  const Expr* after;  ///< the newest unbacked symbol in it: test right after the op that binds it
  std::string message;
  std::string location;
};

/// The value found at `source` must equal `expr` (sizes that share a symbol, strides).
struct SourceEquality {
  SymbolSource source;
  std::string source_text;
  const Expr* expr;
};

/// A symbol that a guard fixed to one value.
struct Specialization {
  const Expr* symbol;
  int64_t value;
  std::string location;
};

class ShapeEnv {
 public:
  static std::shared_ptr<ShapeEnv> make();
  ~ShapeEnv();
  ShapeEnv(const ShapeEnv&) = delete;
  ShapeEnv& operator=(const ShapeEnv&) = delete;

  // ---- symbols
  /// A size or integer argument with example value `hint`; a constant under the 0/1 rule.
  SymInt create_symbol(int64_t hint, SymbolSource source, std::string source_text,
                       const SymbolOptions& options = {});
  SymFloat create_float(double hint, SymbolSource source, std::string source_text);
  /// A value that only the run knows. Sizes: pass Range::at_least(0) and call mark_size_like.
  SymInt create_unbacked(Range range = {}, SymbolSource source = {}, std::string source_text = {});
  SymFloat create_unbacked_float(SymbolSource source = {}, std::string source_text = {});
  SymBool create_unbacked_bool(SymbolSource source = {}, std::string source_text = {});
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
  void expect_source(SymbolSource source, std::string source_text, SymInt value);

  std::span<const SymbolInfo> symbols() const { return symbols_; }
  const SymbolInfo& info(const Expr* symbol) const;
  const Expr* find_symbol(std::string_view name) const;
  /// Whether every symbol inside was made here.
  bool owns(const Expr* expr) const;
  bool has_unbacked(const Expr* expr) const;

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
  SymInt simplify(SymInt value) const;
  Range range(const Expr* expr) const;
  /// With the example values; nothing if an unbacked symbol is inside or it overflows.
  std::optional<SymValue> hint(const Expr* expr) const;
  std::optional<int64_t> int_hint(SymInt value) const;

  // ---- what was taken for granted
  /// Everything to test before a call: ranges of symbols first, then guards in order.
  std::vector<RecordedGuard> guard_conditions() const;
  std::span<const RecordedGuard> guards() const { return guards_; }
  std::span<const RuntimeAssert> runtime_asserts() const { return asserts_; }
  /// All conditions that facts rest on, guards and asserts, over the symbols that stand for others
  /// by now.
  std::vector<const Expr*> assumptions() const;
  std::span<const SourceEquality> source_equalities() const { return equalities_; }
  std::span<const Specialization> specializations() const { return specializations_; }
  /// Throws ConstraintViolationError if a size marked dynamic was fixed.
  void check_constraints() const;

  /// After capture: a guard that is still asked for is answered by the hint and only counted.
  void freeze() { frozen_ = true; }
  bool is_frozen() const { return frozen_; }
  int64_t ignored_guards() const { return ignored_guards_; }

  /// Asked for the value of an expression with unbacked symbols before DataDependentError is
  /// thrown; a value is used as it is, without a guard.
  using Materialize = std::function<std::optional<SymValue>(const Expr*)>;
  void set_materialize(Materialize materialize) { materialize_ = std::move(materialize); }

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
  std::string text(const Expr* expr) const;
  /// With source texts for symbols: "arg0.size(1) <= 5".
  std::string source_text(const Expr* expr) const;

 private:
  ShapeEnv() = default;
  const Expr* add_symbol(SymbolInfo info, Range range);
  const Expr* new_symbol(ExprKind kind);
  Range symbol_range(std::optional<int64_t> hint, const SymbolOptions& options,
                     const std::string& text) const;
  std::string next_name(const char* prefix, int& counter);
  SymbolInfo& mutable_info(const Expr* symbol);
  const SymbolInfo* find_info(const Expr* symbol) const;
  SymValue value_of(const Expr* expr);
  void record_guard(const Expr* condition);
  void add_assert(const Expr* condition, std::string message);
  void note_specializations(const std::string& location);
  void give_up_symbols(const Expr* condition);
  void require_owned(const Expr* expr) const;
  [[noreturn]] void fail_data_dependent(const Expr* expr) const;

  std::vector<SymbolInfo> symbols_;  // ascending numbers
  std::vector<uint32_t> number_blocks_;
  SymFacts facts_;
  std::map<int64_t, const Expr*> duck_;  // example value -> symbol
  std::vector<RecordedGuard> guards_;
  std::vector<RuntimeAssert> asserts_;
  std::vector<SourceEquality> equalities_;
  std::vector<Specialization> specializations_;
  std::vector<std::string> violations_;
  Materialize materialize_;
  Watch watch_;
  Rules rules_;
  std::map<const Expr*, int64_t> n_guards_;  // by symbol, where there is a limit
  bool frozen_ = false;
  std::set<const Expr*> given_;  // unbacked symbols whose values a run has shown
  int64_t ignored_guards_ = 0;
  int n_sizes_ = 0, n_unbacked_ = 0, n_floats_ = 0, n_unbacked_floats_ = 0;
};

/// Makes `env` the one that this thread's symbolic values use, until the scope ends.
class ShapeEnvScope {
 public:
  explicit ShapeEnvScope(ShapeEnv& env);
  ~ShapeEnvScope();
  ShapeEnvScope(const ShapeEnvScope&) = delete;
  ShapeEnvScope& operator=(const ShapeEnvScope&) = delete;

 private:
  ShapeEnv* previous_;
};

/// The environment of the innermost scope of this thread, or null.
ShapeEnv* current_shape_env();

/// The user's file and line, for guards; set by the tracer, null until then.
extern std::string (*user_location_slot)();

}  // namespace tenon
