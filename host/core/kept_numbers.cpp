// Values of symbols whose traces are over.
#include "core/kept_numbers.h"

#include "core/arguments.h"
#include "core/dispatch.h"
#include "core/sym/shape_env.h"
#include "core/sym/sym_simplify.h"
#include "core/sym/symbol_numbers.h"

#include <algorithm>

namespace tenon {

const Expr* as_expr(const SymValue& value) {
  switch (value.kind) {
    case ExprKind::boolean:
      return intern_boolean(value.word != 0);
    case ExprKind::integer:
      return intern_integer(value.word);
    default:
      return intern_real(value.real());
  }
}

std::optional<SymValue> kept_value(const Expr* expr) {
  if (!has_kept_values()) return std::nullopt;
  return evaluate(expr, [](const Expr* symbol) { return kept_symbol(symbol).value; });
}

const Expr* with_kept_values(const Expr* expr, const ShapeEnv* env) {
  if (!has_kept_values() || (env && env->owns(expr))) return expr;
  return substitute(expr, [env](const Expr* symbol) -> const Expr* {
    if (env && env->owns(symbol)) return nullptr;
    std::optional<SymValue> value = kept_symbol(symbol).value;
    return value ? as_expr(*value) : nullptr;
  });
}

// An environment refuses what it neither owns nor knows.
static const Expr* own_expression(const Expr* expr) {
  const ShapeEnv* env = current_shape_env();
  if (!env) return with_kept_values(expr, nullptr);
  return env->owns(expr) ? expr : env->simplify(expr);
}

SymInt with_kept_values(SymInt n) {
  return n.is_symbolic() ? as_sym_int(own_expression(n.expr())) : n;
}

Number with_kept_values(Number n) {
  if (!n.is_symbolic()) return n;
  if (n.is_integer()) return with_kept_values(n.sym_int());
  const Expr* expr = own_expression(std::bit_cast<const Expr*>(n.word()));
  return n.is_floating() ? Number(as_sym_float(expr)) : Number(as_sym_bool(expr));
}

std::string advice_without_value(const Expr* expr) {
  const std::vector<const Expr*> symbols = free_symbols(expr);
  if (std::ranges::any_of(symbols, [](const Expr* s) { return kept_symbol(s).is_of_other_thread; }))
    return "another thread records its call: make it a plain number in the body, as in int64_t n = "
           "x.size(0), before other threads get it";
  if (std::ranges::any_of(symbols, [](const Expr* s) { return kept_symbol(s).is_over; }))
    return "its call is over, and nobody has looked then at the data that it depends on: look at "
           "it in "
           "the body, as in item<float>().value()";
  return "";
}

namespace detail {
std::atomic<bool> has_kept_values{false};
}

// What belongs to the trace of this thread stays. A graph may be asked for its sizes without its
// environment.
static bool has_foreign(std::span<const Value> args) {
  bool has = false;
  const ShapeEnv* env = current_shape_env();
  for (const Value& arg : args)
    for_each_symbolic(arg, [&](Number n) {
      const Expr* expr = n.is_integer() ? n.sym_int().expr() : std::bit_cast<const Expr*>(n.word());
      has = has || (env ? !env->owns(expr) : !(thread_modes.include & bit(Key::meta)));
    });
  return has;
}

bool call_with_kept_values(const CallArgs& call) {
  std::span<const Value> given(call.args, call.n_args);
  if (!has_foreign(given)) return false;
  bool any = false;
  auto plain = [&any](Number n) {
    Number other = with_kept_values(n);
    any |= other.word() != n.word();
    return other;
  };
  std::vector<Value> args(given.begin(), given.end());
  ArgumentLists lists;
  map_arguments(
      args, lists, [](const Tensor& t) { return t; }, plain);
  if (any) dispatch(*call.op, args.data(), call.n_args, call.results, call.n_results);
  return any;
}

}  // namespace tenon
