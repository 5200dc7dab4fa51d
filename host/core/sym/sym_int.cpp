// Symbolic numbers of the public API: slow paths of their operators.
//
// An operation that this thread did before, with the same facts, is one look-up (sym_cache.h).
#include "core/sym/sym_int.h"

#include "core/error.h"
#include "core/kept_numbers.h"
#include "core/sym/shape_env.h"
#include "core/sym/size_questions.h"
#include "core/sym/sym_cache.h"
#include "core/sym/sym_simplify.h"
#include "core/sym/symbol_numbers.h"
#include "core/symbols_in_errors.h"

#include <algorithm>

namespace tenon {

namespace {

ShapeEnv& trace_of(const Expr* expr, const char* type) {
  ShapeEnv* env = current_shape_env();
  require(env != nullptr, "the symbolic {} {} was used as a number outside of its trace; {}", type,
          symbol_text(expr), advice_without_value(expr));
  return *env;
}

/// The value of a number that its trace has left behind, where nothing is recorded.
std::optional<SymValue> value_outside(const Expr* expr) {
  return current_shape_env() ? std::nullopt : kept_value(expr);
}

/// Where an operation takes place: the current environment and the state of its facts.
struct Context {
  ShapeEnv* env = current_shape_env();
  const SymFacts* facts = env ? &env->facts() : nullptr;
  uint64_t stamp = facts ? facts->stamp() : 0;

  const Expr* simplify(const Expr* expr) const {
    if (env) return env->simplify(expr);
    // Sums that the program goes on adding to do not grow without end.
    constexpr uint32_t most_nodes = 64;
    return expr->tree_nodes > most_nodes ? with_kept_values(expr, nullptr) : expr;
  }
};

const Expr* binary(SymOp op, const Expr* a, const Expr* b, const Context& context) {
  const Expr* operands[] = {context.simplify(a), context.simplify(b)};
  return make_expr(op, operands, context.facts);
}

const Expr* remembered_binary(SymOp op, const Expr* a, const Expr* b) {
  Context context;
  return remembered(context.stamp, static_cast<uint32_t>(op), reinterpret_cast<int64_t>(a),
                    reinterpret_cast<int64_t>(b), [&] { return binary(op, a, b, context); });
}

const Expr* remembered_words(SymOp op, SymInt a, SymInt b) {
  Context context;
  return remembered(context.stamp, static_cast<uint32_t>(op) | 0x100, a.word(), b.word(),
                    [&] { return binary(op, as_expr(a), as_expr(b), context); });
}

const Expr* unary(SymOp op, const Expr* a) {
  Context context;
  const Expr* operand = context.simplify(a);
  return make_expr(op, {operand}, context.facts);
}

}  // namespace

void SymInt::fail_range() {
  fail("a size or integer below -2^62 was given; expected -4611686018427387904 or more");
}

int64_t SymInt::specialize() const {
  if (auto kept = value_outside(expr())) return kept->integer();
  return trace_of(expr(), "integer").specialize(expr());
}
bool SymBool::evaluate() const {
  if (auto kept = value_outside(expr_)) return kept->word != 0;
  return trace_of(expr_, "condition").evaluate(expr_);
}
double SymFloat::specialize() const {
  if (auto kept = value_outside(expr_)) return kept->real();
  return trace_of(expr_, "number").specialize_float(expr_);
}

namespace detail {

SymInt sym_int_op(SymOp op, SymInt a, SymInt b) { return as_sym_int(remembered_words(op, a, b)); }
SymBool sym_compare(SymOp op, SymInt a, SymInt b) {
  if (SizeQuestions::listens())
    SizeQuestions::note(op, as_expr(with_kept_values(a)), as_expr(with_kept_values(b)));
  return as_sym_bool(remembered_words(op, a, b));
}
void fail_overflow(const char* operation, int64_t a, int64_t b) {
  fail("integer overflow: {} {} {} does not fit into 64 bits; are these sizes meant?", a, operation,
       b);
}
void fail_zero_divisor(int64_t a) {
  fail("division by zero: {} is divided by 0; check the divisor, a size or step, before", a);
}

}  // namespace detail

namespace detail {

SymBool sym_and(SymBool a, SymBool b) {
  if (!a.is_symbolic()) return a.guard_bool() ? b : a;
  if (!b.is_symbolic()) return b.guard_bool() ? a : b;
  return as_sym_bool(remembered_binary(SymOp::and_, a.expr(), b.expr()));
}
SymBool sym_or(SymBool a, SymBool b) {
  if (!a.is_symbolic()) return a.guard_bool() ? a : b;
  if (!b.is_symbolic()) return b.guard_bool() ? b : a;
  return as_sym_bool(remembered_binary(SymOp::or_, a.expr(), b.expr()));
}
SymBool sym_not(SymBool a) {
  return a.is_symbolic() ? as_sym_bool(unary(SymOp::not_, a.expr())) : SymBool(!a.guard_bool());
}

SymFloat to_real(SymInt value) { return sym_to_float(value); }
SymFloat sym_real_add(SymFloat a, SymFloat b) { return sym_float_op(SymOp::add, a, b); }
SymFloat sym_real_sub(SymFloat a, SymFloat b) {
  return sym_float_op(SymOp::add, a, sym_float_op(SymOp::mul, SymFloat(-1), b));
}
SymFloat sym_real_mul(SymFloat a, SymFloat b) { return sym_float_op(SymOp::mul, a, b); }
SymFloat sym_real_div(SymFloat a, SymFloat b) { return sym_float_op(SymOp::truediv, a, b); }
SymBool sym_real_compare(SymOp op, SymFloat a, SymFloat b) { return sym_float_compare(op, a, b); }

}  // namespace detail

namespace {

bool symbolic(SymInt a, SymInt b) { return a.is_symbolic() || b.is_symbolic(); }

}  // namespace

SymInt sym_min(SymInt a, SymInt b) {
  if (symbolic(a, b)) return detail::sym_int_op(SymOp::min, a, b);
  return a.word() < b.word() ? a : b;
}
SymInt sym_max(SymInt a, SymInt b) {
  if (symbolic(a, b)) return detail::sym_int_op(SymOp::max, a, b);
  return a.word() < b.word() ? b : a;
}
SymFloat sym_min(SymFloat a, SymFloat b) {
  if (a.is_symbolic() || b.is_symbolic()) return sym_float_op(SymOp::min, a, b);
  return std::min(a.guard_float(), b.guard_float());
}
SymFloat sym_max(SymFloat a, SymFloat b) {
  if (a.is_symbolic() || b.is_symbolic()) return sym_float_op(SymOp::max, a, b);
  return std::max(a.guard_float(), b.guard_float());
}
SymInt sym_ceildiv(SymInt a, SymInt b) { return detail::sym_int_op(SymOp::ceildiv, a, b); }
SymInt sym_pow(SymInt base, SymInt exponent) {
  return detail::sym_int_op(SymOp::pow, base, exponent);
}

SymInt sym_select(SymBool condition, SymInt a, SymInt b) {
  if (!condition.is_symbolic()) return condition.guard_bool() ? a : b;
  Context context;
  const Expr* operands[] = {context.simplify(condition.expr()), context.simplify(as_expr(a)),
                            context.simplify(as_expr(b))};
  return as_sym_int(make_expr(SymOp::select, operands, context.facts));
}

SymFloat sym_to_float(SymInt value) {
  if (!value.is_symbolic()) return SymFloat(static_cast<double>(value.word()));
  return as_sym_float(unary(SymOp::to_float, value.expr()));
}
SymFloat sym_truediv(SymInt a, SymInt b) {
  return as_sym_float(remembered_words(SymOp::truediv, a, b));
}
SymFloat sym_float_op(SymOp op, SymFloat a, SymFloat b) {
  return as_sym_float(remembered_binary(op, as_expr(a), as_expr(b)));
}
SymBool sym_float_compare(SymOp op, SymFloat a, SymFloat b) {
  return as_sym_bool(remembered_binary(op, as_expr(a), as_expr(b)));
}
SymInt sym_round(SymOp op, SymFloat value) { return as_sym_int(unary(op, as_expr(value))); }

bool statically_known_true(SymBool condition) {
  if (!condition.is_symbolic()) return condition.guard_bool();
  if (auto kept = value_outside(condition.expr())) return kept->word != 0;
  ShapeEnv* env = current_shape_env();
  return env != nullptr && env->statically_known(condition.expr()).value_or(false);
}

bool guard_or_false(SymBool condition) {
  if (!condition.is_symbolic()) return condition.guard_bool();
  if (auto kept = value_outside(condition.expr())) return kept->word != 0;
  return trace_of(condition.expr(), "condition").guard_or_false(condition.expr());
}
bool guard_or_true(SymBool condition) {
  if (!condition.is_symbolic()) return condition.guard_bool();
  if (auto kept = value_outside(condition.expr())) return kept->word != 0;
  return trace_of(condition.expr(), "condition").guard_or_true(condition.expr());
}
void sym_check(SymBool condition, const char* message) {
  if (!condition.is_symbolic() || value_outside(condition.expr()))
    return require(condition.guard_bool(), "check failed: {}", message);
  trace_of(condition.expr(), "condition").check(condition.expr(), message);
}

namespace {

thread_local constinit std::vector<const Expr*>* told_symbols = nullptr;

std::string told_text(const Expr* expr) {
  if (told_symbols)
    for (const Expr* symbol : free_symbols(expr))
      if (std::ranges::find(*told_symbols, symbol) == told_symbols->end())
        told_symbols->push_back(symbol);
  return symbol_text(expr);
}

std::string number_text(const SymValue& value) {
  return value.kind == ExprKind::real ? message("{}", value.real()) : std::to_string(value.word);
}

std::string with_sources(FunctionRef<std::string()> write) {
  struct Told {
    std::vector<const Expr*> symbols, *before = std::exchange(told_symbols, &symbols);
    ~Told() { told_symbols = before; }
  } told;
  std::string text = write();
  const ShapeEnv* env = current_shape_env();
  std::string sources;
  for (const Expr* symbol : told.symbols) {
    if (!env || !env->owns(symbol)) continue;
    const SymbolInfo& info = env->info(symbol);
    if (!info.hint || info.source_text.empty() || text.find(info.source_text) != text.npos)
      continue;
    sources += message("{}{} is {} = {}", sources.empty() ? "; here " : ", ", info.name,
                       info.source_text, number_text(*info.hint));
  }
  return text + sources;
}

const bool installed_sources = (explain_symbols_slot = &with_sources, true);

}  // namespace

std::string symbolic_text(SymInt value) {
  return value.is_symbolic() ? told_text(value.expr()) : std::to_string(value.word());
}
std::string symbolic_text(SymBool value) { return told_text(as_expr(value)); }
std::string symbolic_text(SymFloat value) { return told_text(as_expr(value)); }

namespace {

thread_local constinit bool tells_symbols = false;

// A body may do with a text what it does with a number, such as to look into a map.
bool tells_number(const Expr* expr) {
  return !tells_symbols && (current_shape_env() || kept_value(expr));
}

}  // namespace

SymbolicTexts::SymbolicTexts() : before_(std::exchange(tells_symbols, true)) {}
SymbolicTexts::~SymbolicTexts() { tells_symbols = before_; }

std::string to_text(SymInt value) {
  bool tells = value.is_symbolic() && tells_number(value.expr());
  return symbolic_text(tells ? SymInt(value.guard_int()) : value);
}
std::string to_text(SymBool value) {
  bool tells = value.is_symbolic() && tells_number(value.expr());
  return symbolic_text(tells ? SymBool(value.guard_bool()) : value);
}
std::string to_text(SymFloat value) {
  bool tells = value.is_symbolic() && tells_number(value.expr());
  return symbolic_text(tells ? SymFloat(value.guard_float()) : value);
}

}  // namespace tenon
