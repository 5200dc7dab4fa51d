// Rules of reals: constants are folded, and rounding of an exact multiple stays among integers.
//
// Real arithmetic is not associative, so terms keep their order and nothing is expanded.
#include "core/error.h"
#include "core/sym/sym_eval.h"
#include "core/sym/sym_rules.h"
#include "core/sym/sym_simplify.h"

#include <cmath>
#include <utility>

namespace tenon::rules {

namespace {

bool is_real_constant(const Expr* e, double value) {
  return e->is_constant() && e->real() == value;
}

const Expr* build_two(SymOp op, const Expr* a, const Expr* b) {
  if (a->is_constant() && b->is_constant()) {
    SymValue args[] = {SymValue::of_real(a->real()), SymValue::of_real(b->real())};
    return intern_real(apply_op(op, args)->real());
  }
  bool commutes = op == SymOp::add || op == SymOp::mul;
  if (commutes && compare_order(a, b) > 0) std::swap(a, b);
  if (op == SymOp::mul && is_real_constant(b, 1)) return a;
  if ((op == SymOp::truediv || op == SymOp::pow) && is_real_constant(b, 1)) return a;
  if ((op == SymOp::min || op == SymOp::max) && a == b) return a;
  const Expr* operands[] = {a, b};
  return intern_node(op, ExprKind::real, operands);
}

/// numerator/denominator with e == x * numerator / denominator, x an integer expression, if the
/// real computation is exact for |x| < 2^53 up to the final rounding.
struct Ratio {
  const Expr* x;
  int64_t numerator, denominator;
};

std::optional<std::pair<int64_t, int64_t>> small_fraction(double value) {
  for (int64_t denominator = 1; denominator <= 1024; denominator *= 2) {
    double numerator = value * static_cast<double>(denominator);
    if (numerator == std::trunc(numerator) && std::abs(numerator) < 0x1p20)
      return std::pair(static_cast<int64_t>(numerator), denominator);
  }
  return std::nullopt;
}

std::optional<Ratio> ratio_of(const Expr* e) {
  if (e->op == SymOp::to_float) return Ratio{e->operand(0), 1, 1};
  bool product = e->op == SymOp::mul, quotient = e->op == SymOp::truediv;
  if ((!product && !quotient) || e->n_operands != 2 || e->operand(0)->op != SymOp::to_float ||
      !e->operand(1)->is_constant())
    return std::nullopt;
  auto fraction = small_fraction(e->operand(1)->real());
  if (!fraction || fraction->first == 0) return std::nullopt;
  auto [n, d] = *fraction;
  if (quotient) std::swap(n, d);
  return d < 0 ? Ratio{e->operand(0)->operand(0), -n, -d} : Ratio{e->operand(0)->operand(0), n, d};
}

}  // namespace

const Expr* build_real(SymOp op, std::span<const Expr* const> operands, const SymFacts*) {
  bool integers_only = op == SymOp::floordiv || op == SymOp::ceildiv || op == SymOp::mod;
  require(
      !integers_only, ErrorCode::unsupported,
      "symbolic expression: // and % take integers, found real numbers; divide with / and round");
  const Expr* result = operands[0];
  for (const Expr* e : operands.subspan(1)) result = build_two(op, result, e);
  return result;
}

const Expr* build_rounding(SymOp op, const Expr* a, const SymFacts* facts) {
  if (a->kind == ExprKind::integer) return a;
  if (a->is_constant()) {
    SymValue arg = SymValue::of_real(a->real());
    auto value = apply_op(op, {&arg, 1});
    require(value.has_value(), "rounding {}: the result does not fit into 64 bits", a->real());
    return intern_integer(value->integer());
  }
  if (auto ratio = ratio_of(a)) {
    const Expr* scaled = build_product(ratio->x, intern_integer(ratio->numerator), facts);
    const Expr* divisor = intern_integer(ratio->denominator);
    if (ratio->denominator == 1) return scaled;
    bool downwards =
        op == SymOp::floor_to_int || (op == SymOp::trunc && range_of(scaled, facts).lo >= 0);
    if (downwards) return build_floordiv(scaled, divisor, facts);
    if (op == SymOp::ceil_to_int) return build_ceildiv(scaled, divisor, facts);
  }
  return intern_node(op, ExprKind::integer, {&a, 1});
}

}  // namespace tenon::rules
