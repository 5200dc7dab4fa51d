// The rules of make_expr, one function a group; operands are canonical and of the right kind.
#pragma once

#include "core/sym/sym_facts.h"
#include "core/sym/sym_range.h"
#include "core/sym/sym_sum.h"

namespace tenon::rules {

// sym_simplify.cpp: polynomials, choice
/// The sum as an expression, after `b*(a//b) + a%b` became a, and `b*(a//b)` where b divides a.
const Expr* build_sum(Sum sum, const SymFacts* facts);
const Expr* build_product(const Expr* a, const Expr* b, const SymFacts* facts);
const Expr* build_extremum(SymOp op, std::span<const Expr* const> operands, const SymFacts* facts);

// sym_divide.cpp
const Expr* build_floordiv(const Expr* a, const Expr* b, const SymFacts* facts);
const Expr* build_ceildiv(const Expr* a, const Expr* b, const SymFacts* facts);
const Expr* build_mod(const Expr* a, const Expr* b, const SymFacts* facts);
/// Whether b is known to divide a.
bool divides(const Expr* b, const Expr* a, const SymFacts* facts);

// sym_compare.cpp
const Expr* build_comparison(SymOp op, const Expr* a, const Expr* b, const SymFacts* facts);
const Expr* build_logic(SymOp op, std::span<const Expr* const> operands, const SymFacts* facts);
const Expr* build_not(const Expr* a, const SymFacts* facts);
/// The integer comparison as `form <= bound` or `form == bound`; form has gcd 1.
struct Bound {
  Sum form;
  int64_t bound;
};
std::optional<Bound> bound_of(const Expr* comparison);

// sym_real.cpp
const Expr* build_real(SymOp op, std::span<const Expr* const> operands, const SymFacts* facts);
const Expr* build_rounding(SymOp op, const Expr* a, const SymFacts* facts);

// sym_bounds.cpp
Range range_of_sum(const Sum& sum, const SymFacts* facts);
/// Narrower: also tries what min, max, select and floor division can be replaced by.
Range tight_range(const Sum& sum, const SymFacts* facts);

}  // namespace tenon::rules
