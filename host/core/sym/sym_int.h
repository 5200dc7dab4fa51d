// Operations on symbolic numbers beyond those of <tenon/sym.h>: rounding, reals, choice.
//
// Plain numbers are computed at once; symbolic ones under the ShapeEnv of this thread's scope.
#pragma once

#include <tenon/sym.h>

namespace tenon {

class ShapeEnv;

SymInt sym_ceildiv(SymInt a, SymInt b);
SymInt sym_pow(SymInt base, SymInt exponent);
SymInt sym_select(SymBool condition, SymInt a, SymInt b);

SymFloat sym_to_float(SymInt value);
SymFloat sym_truediv(SymInt a, SymInt b);
/// add, mul, truediv, pow, min, max.
SymFloat sym_float_op(SymOp op, SymFloat a, SymFloat b);
/// eq, ne, lt, le.
SymBool sym_float_compare(SymOp op, SymFloat a, SymFloat b);
/// trunc, floor_to_int, ceil_to_int, round_to_int (halves to even).
SymInt sym_round(SymOp op, SymFloat value);

/// Answers without a guard where the facts suffice, else with `fallback` for data-dependent values.
bool guard_or_false(SymBool condition);
bool guard_or_true(SymBool condition);
/// ShapeEnv::check of the current environment; a plain false throws UserError with `message`.
void sym_check(SymBool condition, const char* message);

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

/// While one lives, to_text on this thread tells symbols instead of looking at their values: for code
/// of the program that gets a graph.
class SymbolicTexts {
 public:
  SymbolicTexts();
  ~SymbolicTexts();
  SymbolicTexts(const SymbolicTexts&) = delete;

 private:
  bool before_;
};

/// The environment of the innermost scope of this thread, or null.
ShapeEnv* current_shape_env();

}  // namespace tenon
