// Builds expressions in canonical form and simplifies them under what is known.
//
// Problem: sizes that are equal must be seen to be equal: `(s0*4)//2` and `2*s0`, `s0 + s1 - s0`
//   and `s1`, `min(s0, s0 + 1)` and `s0`.
// Model: an integer expression is a polynomial with integer factors over atoms: symbols, and
//   operations that are not polynomial (floordiv, ceildiv, mod, min, max, select, rounding).
// Method: sums and products are expanded and collected (up to 64 terms); each atom has its own
//   rules, listed where it is built: floor division and remainder in sym_divide.cpp, comparisons
//   and logic in sym_compare.cpp, reals in sym_real.cpp. Comparisons become `form <= constant` with
//   the gcd divided out and negative terms moved to the other side. With facts, symbols are
//   replaced, comparisons decided by intervals, remainders known to be zero dropped and `b*(a//b)`
//   becomes a.
// Cost: some 0.3 to 2 us for a new node; nodes seen before cost one lookup (sym_int.cpp).
// Source: the rules are those that size arithmetic of tensor programs needs; the canonical form is
//   the usual one of computer algebra (graded order, gcd-free), as in Knuth, TAOCP 2, 4.6.
#pragma once

#include "core/sym/sym_expr.h"
#include "core/sym/sym_facts.h"
#include "core/sym/sym_range.h"

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>

namespace tenon {

/// The canonical expression `op(operands)`. Operands must be canonical. Kinds: arithmetic takes
/// integers or reals, and turns integers into reals where both occur; truediv and to_float give
/// reals; trunc, floor_to_int, ceil_to_int and round_to_int give integers. Throws UserError on
/// overflow of constants, a zero divisor, a wrong number of operands or a kind that does not fit.
const Expr* make_expr(SymOp op, std::span<const Expr* const> operands,
                      const SymFacts* facts = nullptr);
inline const Expr* make_expr(SymOp op, std::initializer_list<const Expr*> operands,
                             const SymFacts* facts = nullptr) {
  return make_expr(op, std::span<const Expr* const>(operands.begin(), operands.size()), facts);
}

/// The expression rebuilt with replacements and facts.
const Expr* simplify(const Expr* expr, const SymFacts* facts);
/// Each symbol replaced by `values(symbol)` where that is not null, and rebuilt.
const Expr* substitute(const Expr* expr,
                       const std::function<const Expr*(const Expr* symbol)>& values,
                       const SymFacts* facts = nullptr);
/// An interval that holds every value; unbounded for reals.
Range range_of(const Expr* expr, const SymFacts* facts);

}  // namespace tenon
