// Symbolic numbers that the program keeps beyond their trace.
//
// Problem: a body may put x.size(0) where it outlives the call: into a member, a hook, an exception. In
// a plain run that is a number. Model: when a trace is over, the values that its symbols had in that
// call are kept beside their numbers (symbol_numbers.h). From then on an expression over them is a
// number of the program like any other: outside of a trace it has its value, another trace gets it as a
// constant. The same holds, while a trace is on, for code that it does not see: the body calls it on
// every call, and what follows a path has plain numbers from the start.
//
// Cost: operations look whether an argument is symbolic, once there has been a trace with symbols.
#pragma once

#include "core/sym/sym_eval.h"
#include "core/value.h"

#include <atomic>
#include <optional>

namespace tenon {

class ShapeEnv;
struct CallArgs;

const Expr* as_expr(const SymValue& value);

/// What the expression is in its call, if the traces of all symbols inside are over, or are this thread's.
/// Nothing where a value is not known.
std::optional<SymValue> kept_value(const Expr* expr);
/// The expression with such values in the place of symbols that `env`, if it is there, does not own.
const Expr* with_kept_values(const Expr* expr, const ShapeEnv* env);
/// The same under the environment of this thread.
Number with_kept_values(Number n);
SymInt with_kept_values(SymInt n);

/// While one lives, this thread is outside of all traces: code of the program runs that none sees.
class OutsideOfTraces {
 public:
  OutsideOfTraces();
  ~OutsideOfTraces();
  OutsideOfTraces(const OutsideOfTraces&) = delete;

 private:
  ShapeEnv* const before_;
};

/// What to do where there is no such value, for messages.
std::string advice_without_value(const Expr* expr);

namespace detail {
extern std::atomic<bool> has_kept_values;
}
/// Whether any trace with symbols is over.
inline bool has_kept_values() { return detail::has_kept_values.load(std::memory_order_relaxed); }

/// Calls the operation again where numbers among its arguments are kept ones; otherwise false.
bool call_with_kept_values(const CallArgs& call);

}  // namespace tenon
