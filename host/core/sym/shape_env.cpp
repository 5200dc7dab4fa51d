// Symbols, guards and asserts of one trace.
#include "core/sym/shape_env.h"

#include "core/error.h"
#include "core/kept_numbers.h"
#include "core/sym/size_questions.h"
#include "core/sym/sym_cache.h"
#include "core/sym/sym_rules.h"
#include "core/sym/sym_simplify.h"
#include "core/sym/symbol_numbers.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tenon {

namespace {

thread_local ShapeEnv* current_env = nullptr;

[[noreturn]] void fail_data_dependent(const ShapeEnv& env, const Expr* expr) {
  bool condition = expr->kind == ExprKind::boolean;
  std::string lines = message("Could not guard on data-dependent expression {}", env.text(expr));
  for (const Expr* symbol : free_symbols(expr)) {
    const SymbolInfo& made = env.info(symbol);
    if (!made.unbacked) continue;
    lines += message("\n  {} = {}{}, known to lie in {}", made.name,
                     made.source_text.empty() ? "a value read from a tensor" : made.source_text,
                     at_location(made.location), env.range(symbol));
  }
  if (std::string location = user_location(); !location.empty())
    lines += "\n  asked" + at_location(location);
  lines += condition
               ? message("\n  fix: state what holds with tenon::check({}), or", env.text(expr))
               : std::string("\n  fix: keep the value symbolic, or");
  lines += condition ? "\n  fix: choose with cond(...), which needs no answer now"
                     : "\n  fix: let the graph break here (fullgraph = false)";
  fail(ErrorCode::data_dependent, "{}", lines);
}

}  // namespace

ShapeEnv* current_shape_env() { return current_env; }

ShapeEnvScope::ShapeEnvScope(ShapeEnv& env) : previous_(std::exchange(current_env, &env)) {}
ShapeEnvScope::~ShapeEnvScope() { current_env = previous_; }

OutsideOfTraces::OutsideOfTraces() : before_(std::exchange(current_env, nullptr)) {}
OutsideOfTraces::~OutsideOfTraces() { current_env = before_; }

Range SymbolOptions::range_for(std::optional<int64_t> hint, const std::string& text,
                               bool size_oblivious) const {
  Range bounds = range;
  int64_t least = !specialize_zero ? 0 : specialize_one ? 2 : 1;
  if (!hint || size_oblivious) least = 0;
  if (is_size) bounds = bounds.intersect(Range::at_least(least));
  require(!hint || bounds.contains(*hint), ErrorCode::constraint_violation,
          "{} is {}, but its size was declared to lie in {}; pass a size inside or widen the range",
          text.empty() ? "a size" : text, hint.value_or(0), range);
  return bounds;
}

// ---- symbols

const Expr* ShapeEnv::add_symbol(SymbolInfo info, Range range) {
  info.checked = range;
  const SymbolInfo& made = symbols_.add(std::move(info));
  facts_.add_symbol({made.expr, range, nullptr, made.unbacked, !made.is_from_input()});
  if (watch_.symbol_made) watch_.symbol_made(made);
  return made.expr;
}

SymInt ShapeEnv::create_symbol(int64_t hint, SymbolSource source, std::string source_text,
                               const SymbolOptions& options) {
  if (options.policy == SymbolPolicy::fixed) return hint;
  bool unbacked = options.policy == SymbolPolicy::unbacked;
  bool special = !unbacked && !rules_.size_oblivious &&
                 ((hint == 0 && options.specialize_zero) || (hint == 1 && options.specialize_one));
  if (special) {
    if (options.must_stay_dynamic)
      taken_.violations.push_back(
          message("{} was marked dynamic, but a size of {} is always a constant; "
                  "pass an example of 2 or more",
                  source_text, hint));
    return hint;
  }
  auto example = unbacked ? std::nullopt : std::optional(hint);
  Range range = options.range_for(example, source_text, rules_.size_oblivious);
  // Where the symbol is that others share: that of the example, or of the shape id.
  const Expr* none = nullptr;
  const Expr*& shared = options.policy == SymbolPolicy::duck    ? duck_[hint]
                        : unbacked && !options.shape_id.empty() ? of_shape_id_[options.shape_id]
                                                                : none;
  if (shared) {
    taken_.equalities.push_back({source, std::move(source_text), shared});
    SymbolInfo& info = symbols_.info(shared);
    info.checked = info.checked.intersect(range);
    info.must_stay_dynamic |= options.must_stay_dynamic;
    facts_.narrow_symbol(shared, range);
    return SymInt::from_expr(shared);
  }
  SymbolInfo info{.unbacked = unbacked,
                  .size_like = rules_.size_oblivious && options.is_size,
                  .must_stay_dynamic = options.must_stay_dynamic,
                  .cost_hint = options.cost_hint,
                  .source = source,
                  .stands_for = options.stands_for,
                  .source_text = std::move(source_text)};
  if (example) info.hint = SymValue::of_int(hint);
  shared = add_symbol(std::move(info), range);
  SymInt made = SymInt::from_expr(shared);
  if (unbacked && options.is_size) mark_size_like(made);
  return made;
}

SymFloat ShapeEnv::create_float(double hint, SymbolSource source, std::string source_text) {
  SymbolInfo info{.kind = ExprKind::real,
                  .hint = SymValue::of_real(hint),
                  .source = source,
                  .source_text = std::move(source_text)};
  return SymFloat::from_expr(add_symbol(std::move(info), {}));
}

const Expr* ShapeEnv::add_unbacked(ExprKind kind, Range range, SymbolSource source,
                                   std::string source_text) {
  if (!made_again_.empty() && made_again_.front()->kind == kind) {
    const Expr* known = made_again_.front();
    made_again_.erase(made_again_.begin());
    return known;
  }
  SymbolInfo info{
      .kind = kind, .unbacked = true, .source = source, .source_text = std::move(source_text)};
  return add_symbol(std::move(info), range);
}

const Expr* ShapeEnv::declare_symbol(std::string_view name, ExprKind kind,
                                     std::optional<SymValue> hint, Range range, SymbolSource source,
                                     std::string source_text) {
  if (const Expr* known = find_symbol(name)) {
    require(known->kind == kind, "symbol {} is declared twice, with different kinds", name);
    return known;
  }
  SymbolInfo info{.name = std::string(name),
                  .kind = kind,
                  .unbacked = !hint.has_value(),
                  .hint = hint,
                  .source = source,
                  .source_text = std::move(source_text)};
  return add_symbol(std::move(info), range);
}

void ShapeEnv::mark_size_like(SymInt value) {
  if (!value.is_symbolic()) return;
  const Expr* expr = tenon::simplify(value.expr(), &facts_);
  facts_.assume(make_expr(SymOp::le, {intern_integer(0), expr}, &facts_));
  if (expr->is_symbol()) symbols_.info(expr).size_like = info(expr).unbacked;
}

void ShapeEnv::give_value(const Expr* unbacked, SymValue value) {
  given_.insert(unbacked);
  if (simplify(unbacked) != unbacked) return;  // an equality says what stands for it
  const SymbolInfo known = info(unbacked);
  const Expr* stands = as_expr(value);
  if (known.kind != ExprKind::boolean) {
    SymbolInfo made{.kind = known.kind,
                    .hint = value,
                    .source = {SymbolSource::Kind::node_value, 0, 0},
                    .source_text = known.source_text};
    stands = add_symbol(std::move(made), range(unbacked));
  }
  facts_.give(unbacked, stands);
}

const Expr* ShapeEnv::renewed(const Expr* expr) const {
  return substitute(expr, [this](const Expr* symbol) -> const Expr* {
    return given_.count(symbol) ? simplify(symbol) : nullptr;
  });
}

// ---- questions

const Expr* ShapeEnv::simplify(const Expr* expr) const {
  if (expr->is_constant()) return expr;
  return remembered(facts_.stamp(), SymCache::simplified, reinterpret_cast<int64_t>(expr), 0, [&] {
    const Expr* own = with_kept_values(expr, this);
    require(owns(own), "the symbolic value {} belongs to another trace; {}", symbol_text(expr),
            advice_without_value(expr));
    return tenon::simplify(own, &facts_);
  });
}

std::optional<bool> ShapeEnv::statically_known(const Expr* condition) const {
  const Expr* known = simplify(condition);
  return known->is_constant() ? std::optional<bool>(known->is_true()) : std::nullopt;
}

std::optional<bool> ShapeEnv::statically_known_size_oblivious(const Expr* condition) const {
  if (auto known = statically_known(condition)) return known;
  SymFacts facts = facts_;
  for (const SymbolInfo& info : symbols_.all())
    if (info.size_like) facts.narrow_symbol(info.expr, Range::at_least(2));
  const Expr* known = tenon::simplify(condition, &facts);
  return known->is_constant() ? std::optional<bool>(known->is_true()) : std::nullopt;
}

Range ShapeEnv::range(const Expr* expr) const {
  const Expr* e = simplify(expr);
  return e->kind == ExprKind::integer ? rules::tight_range(Sum(e), &facts_) : Range{};
}

std::optional<SymValue> ShapeEnv::hint(const Expr* expr) const {
  auto hint_of = [this](const Expr* symbol) {
    const SymbolInfo* own = symbols_.find(symbol);
    return own ? own->hint : kept_value(symbol);
  };
  if (auto value = tenon::evaluate(expr, hint_of)) return value;
  return tenon::evaluate(simplify(expr), hint_of);
}

std::optional<int64_t> ShapeEnv::int_hint(SymInt value) const {
  if (!value.is_symbolic()) return value.word();
  auto found = hint(value.expr());
  return found ? std::optional<int64_t>(found->integer()) : std::nullopt;
}

bool ShapeEnv::evaluate(const Expr* condition) {
  ensure(condition->kind == ExprKind::boolean, "a condition was expected");
  const Expr* simple = simplify(condition);
  return simple->is_constant() ? simple->is_true() : value_of(simple).word != 0;
}

/// 0 == -0, while code for one of them may give another sign with the other: their reciprocals tell.
static const Expr* same_sign_of_zero(const Expr* expr, double zero, const SymFacts& facts) {
  const Expr* reciprocal = make_expr(SymOp::truediv, {intern_real(1), expr}, &facts);
  return make_expr(SymOp::eq, {reciprocal, intern_real(1 / zero)}, &facts);
}

/// The value of a simplified expression that facts leave open, with the guard that pins it down. A
/// number that is computed from number arguments alone, or has a name although it is a constant, may
/// be told without one.
SymValue ShapeEnv::value_of(const Expr* expr, bool may_be_told) {
  auto value = hint(expr);
  auto is_argument = [this](const Expr* symbol) {
    return info(symbol).source.kind == SymbolSource::Kind::input_value;
  };
  if (value && may_be_told && tells_arguments_ &&
      std::ranges::all_of(free_symbols(spelled_out(expr)), is_argument) && tells_arguments_())
    return *value;
  if (!value && has_unbacked(expr)) {
    value = materialize_ ? materialize_(expr) : std::nullopt;
    if (!value) fail_data_dependent(*this, expr);
    return *value;
  }
  require(value.has_value(), "{}: does not fit into 64 bits with the example sizes", text(expr));
  if (expr->kind == ExprKind::boolean) {
    record_guard(value->word ? expr : make_expr(SymOp::not_, {expr}, &facts_));
  } else if (expr->kind == ExprKind::real && std::isnan(value->real())) {
    record_guard(make_expr(SymOp::ne, {expr, expr}, &facts_));
  } else {
    record_guard(make_expr(SymOp::eq, {expr, as_expr(*value)}, &facts_));
    if (expr->kind == ExprKind::real && value->real() == 0)
      record_guard(same_sign_of_zero(simplify(expr), value->real(), facts_));
  }
  return *value;
}

void ShapeEnv::record_guard(const Expr* condition) {
  if (condition->is_constant()) return;
  if (condition->op == SymOp::and_) {
    for (const Expr* operand : condition->operands()) record_guard(simplify(operand));
    return;
  }
  taken_.guards.push_back({condition, user_location()});
  facts_.assume(condition);
  taken_.note_specializations(facts_, taken_.guards.back().location);
  if (watch_.guard_added) watch_.guard_added(condition);
  if (watch_.most_guards >= 0) give_up_symbols(condition);
}

static void note_asked(const ShapeEnv& env, const Expr* expr, int64_t value) {
  if (SizeQuestions::listens())
    SizeQuestions::note(SymOp::eq, with_kept_values(expr, &env), intern_integer(value));
}

void ShapeEnv::give_up_symbols(const Expr* condition) {
  for (const Expr* symbol : free_symbols(condition)) {
    bool gives_up = symbol->kind == ExprKind::integer && hint(symbol) &&
                    ++n_guards_[symbol] > watch_.most_guards;
    const Expr* simple = gives_up ? simplify(symbol) : nullptr;
    if (simple)
      note_asked(*this, symbol,
                 simple->is_constant() ? simple->integer() : value_of(simple).integer());
  }
}

int64_t ShapeEnv::specialize(const Expr* expr) {
  ensure(expr->kind == ExprKind::integer, "an integer was expected");
  const Expr* simple = simplify(expr);
  int64_t value =
      simple->is_constant() ? simple->integer() : value_of(simple, /*may_be_told=*/true).integer();
  note_asked(*this, expr, value);
  return value;
}

double ShapeEnv::specialize_float(const Expr* expr) {
  ensure(expr->kind == ExprKind::real, "a real number was expected");
  const Expr* simple = simplify(expr);
  return simple->is_constant() ? simple->real() : value_of(simple, /*may_be_told=*/true).real();
}

bool ShapeEnv::guard_or(const Expr* condition, bool fallback) {
  const Expr* simple = simplify(condition);
  if (simple->is_constant()) return simple->is_true();
  if (!has_unbacked(simple) && !rules_.size_oblivious) return evaluate(simple);
  return statically_known_size_oblivious(simple).value_or(fallback);
}

bool ShapeEnv::expect(const Expr* condition) {
  const Expr* simple = simplify(condition);
  if (simple->is_constant()) return simple->is_true();
  bool open = has_unbacked(simple);
  if (!open && !(rules_.prefer_asserts && hint(simple).value_or(SymValue{}).word))
    return evaluate(simple);
  add_assert(simple, "");
  return true;
}

void ShapeEnv::add_assert(const Expr* condition, std::string text) {
  const Expr* newest = nullptr;
  for (const Expr* symbol : free_symbols(condition))
    if (info(symbol).unbacked) newest = symbol;
  taken_.asserts.push_back({condition, newest, std::move(text), user_location()});
  facts_.assume(condition);
}

void ShapeEnv::check(const Expr* condition, std::string text_if_false) {
  const Expr* simple = simplify(condition);
  if (!simple->is_constant() && has_unbacked(simple))
    return add_assert(simple, std::move(text_if_false));
  bool holds = simple->is_constant() ? simple->is_true() : hint(simple).value_or(SymValue{}).word;
  if (!holds)
    fail("check failed{}: {} is false for these sizes{}", at_location(user_location()),
         source_text(condition), text_if_false.empty() ? "" : ": " + text_if_false);
  if (rules_.prefer_asserts && !simple->is_constant())
    return add_assert(simple, std::move(text_if_false));
  evaluate(simple);
}

std::vector<const Expr*> ShapeEnv::assumptions() const {
  std::vector<const Expr*> out;
  for (const RecordedGuard& guard : guard_conditions()) out.push_back(guard.condition);
  for (const RuntimeAssert& check : taken_.asserts) out.push_back(renewed(check.condition));
  return out;
}

}  // namespace tenon
