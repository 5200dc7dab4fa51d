// Evaluates an expression with given symbol values: the slow reference for compiled programs.
#pragma once

#include "core/sym/sym_expr.h"

#include <functional>
#include <optional>

namespace tenon {

/// A boolean (0 or 1), integer or real number.
struct SymValue {
  ExprKind kind = ExprKind::integer;
  int64_t word = 0;  ///< the number, or the bits of a double

  static SymValue of_bool(bool value) { return {ExprKind::boolean, value}; }
  static SymValue of_int(int64_t value) { return {ExprKind::integer, value}; }
  static SymValue of_real(double value) { return {ExprKind::real, std::bit_cast<int64_t>(value)}; }
  int64_t integer() const { return word; }
  double real() const { return std::bit_cast<double>(word); }
  friend bool operator==(const SymValue&, const SymValue&) = default;
};

using SymbolValues = std::function<std::optional<SymValue>(const Expr* symbol)>;

/// Nothing on overflow of int64_t, division by zero, a real beyond int64_t that is rounded, or a
/// symbol without value. Both operands of `and`, `or` and `select` are evaluated.
std::optional<SymValue> evaluate(const Expr* expr, const SymbolValues& values);

/// One operation on values; the meaning that the evaluator, the simplifier and the compiled program
/// share. Arguments have the kinds that make_expr demands.
std::optional<SymValue> apply_op(SymOp op, std::span<const SymValue> args);

}  // namespace tenon
