// Expressions as text: `2*s0 + 1`, `s0 // 2`, `min(s0, 4)`, `s0 <= 5 and s1 != 3`; and back.
#pragma once

#include "core/sym/sym_facts.h"

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace tenon {

using SymbolName = std::function<std::string(const Expr* symbol)>;
/// Infix with Python's operators and precedence. Functions: min max ceildiv where float trunc floor
/// ceil round. Reals always have a point or an exponent.
std::string expr_text(const Expr* expr, const SymbolName& name_of);

using SymbolLookup = std::function<const Expr*(std::string_view name)>;
using FunctionLookup =
    std::function<const Expr*(std::string_view name, std::span<const Expr* const> operands)>;
/// Reads what expr_text writes; also `>`, `>=`, chains such as `2 <= s0 <= 16`, `a if c else b`,
/// `pow(a, b)`, `true` and `false`. `lookup` returns null for unknown names; it gets names with all
/// that belongs to them, such as `L['x'].size()[1]` and `Symbol('s0', positive=True)`. `functions`
/// says what other functions, and the operators `|`, `^` and `&`, stand for, or null. Texts come
/// from files: depth and number of operations are bounded. Throws UserError with the position.
const Expr* parse_expr(std::string_view text, const SymbolLookup& lookup,
                       const SymFacts* facts = nullptr, const FunctionLookup& functions = {});

}  // namespace tenon
