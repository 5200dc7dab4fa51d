// The meaning of each operation on values, and the evaluator over expressions.
#include "core/sym/sym_eval.h"

#include <cmath>

namespace tenon {

namespace {

using Result = std::optional<SymValue>;
using Args = std::span<const SymValue>;

Result power(int64_t base, int64_t exponent) {
  if (exponent < 0) return std::nullopt;
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) return std::nullopt;
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return std::nullopt;
  }
  return SymValue::of_int(result);
}

Result divide(SymOp op, int64_t a, int64_t b) {
  if (b == 0 || (b == -1 && a == INT64_MIN)) return std::nullopt;
  if (op == SymOp::floordiv) return SymValue::of_int(detail::floordiv(a, b));
  if (op == SymOp::mod) return SymValue::of_int(detail::floormod(a, b));
  return SymValue::of_int(a / b + ((a % b != 0) && ((a < 0) == (b < 0))));
}

template <class T>
Result compare(SymOp op, T a, T b) {
  switch (op) {
    case SymOp::eq:
      return SymValue::of_bool(a == b);
    case SymOp::ne:
      return SymValue::of_bool(a != b);
    case SymOp::lt:
      return SymValue::of_bool(a < b);
    case SymOp::le:
      return SymValue::of_bool(a <= b);
    default:
      return std::nullopt;
  }
}

Result apply_integer(SymOp op, int64_t a, int64_t b) {
  int64_t r;
  switch (op) {
    case SymOp::add:
      return __builtin_add_overflow(a, b, &r) ? Result() : SymValue::of_int(r);
    case SymOp::mul:
      return __builtin_mul_overflow(a, b, &r) ? Result() : SymValue::of_int(r);
    case SymOp::floordiv:
    case SymOp::ceildiv:
    case SymOp::mod:
      return divide(op, a, b);
    case SymOp::min:
      return SymValue::of_int(a < b ? a : b);
    case SymOp::max:
      return SymValue::of_int(a < b ? b : a);
    case SymOp::pow:
      return power(a, b);
    default:
      return compare(op, a, b);
  }
}

Result apply_real(SymOp op, double a, double b) {
  switch (op) {
    case SymOp::add:
      return SymValue::of_real(a + b);
    case SymOp::mul:
      return SymValue::of_real(a * b);
    case SymOp::truediv:
      return SymValue::of_real(a / b);
    case SymOp::pow:
      return SymValue::of_real(std::pow(a, b));
    case SymOp::min:
      return SymValue::of_real(b < a || std::isnan(b) ? b : a);
    case SymOp::max:
      return SymValue::of_real(a < b || std::isnan(b) ? b : a);
    default:
      return compare(op, a, b);
  }
}

Result round_real(SymOp op, double value) {
  double r = op == SymOp::trunc          ? std::trunc(value)
             : op == SymOp::floor_to_int ? std::floor(value)
             : op == SymOp::ceil_to_int  ? std::ceil(value)
                                         : std::nearbyint(value);  // to even, the default mode
  if (!(r >= -0x1p63 && r < 0x1p63)) return std::nullopt;
  return SymValue::of_int(static_cast<int64_t>(r));
}

Result apply_two(SymOp op, SymValue a, SymValue b) {
  return a.kind == ExprKind::real ? apply_real(op, a.real(), b.real())
                                  : apply_integer(op, a.word, b.word);
}

Result fold(SymOp op, Args args) {
  Result result = args[0];
  for (size_t i = 1; i < args.size() && result; ++i) result = apply_two(op, *result, args[i]);
  return result;
}

}  // namespace

std::optional<SymValue> apply_op(SymOp op, std::span<const SymValue> args) {
  switch (op) {
    case SymOp::and_:
    case SymOp::or_: {
      bool stop = op == SymOp::or_;
      for (const SymValue& v : args)
        if ((v.word != 0) == stop) return SymValue::of_bool(stop);
      return SymValue::of_bool(!stop);
    }
    case SymOp::not_:
      return SymValue::of_bool(args[0].word == 0);
    case SymOp::select:
      return args[0].word ? args[1] : args[2];
    case SymOp::to_float:
      return SymValue::of_real(static_cast<double>(args[0].word));
    case SymOp::trunc:
    case SymOp::floor_to_int:
    case SymOp::ceil_to_int:
    case SymOp::round_to_int:
      return round_real(op, args[0].real());
    default:
      return fold(op, args);
  }
}

std::optional<SymValue> evaluate(const Expr* expr, const SymbolValues& values) {
  if (expr->is_constant()) return SymValue{expr->kind, expr->payload};
  if (expr->is_symbol()) return values(expr);
  constexpr size_t few = 8;
  SymValue buffer[few];
  std::vector<SymValue> many;
  std::span<SymValue> args(buffer, std::min<size_t>(few, expr->n_operands));
  if (expr->n_operands > few) {
    many.resize(expr->n_operands);
    args = many;
  }
  for (size_t i = 0; i < args.size(); ++i) {
    std::optional<SymValue> value = evaluate(expr->operand(i), values);
    if (!value) return std::nullopt;
    args[i] = *value;
  }
  return apply_op(expr->op, args);
}

}  // namespace tenon
