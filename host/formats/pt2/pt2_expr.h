// Symbolic expressions of .pt2 archives as plain trees: parsing, evaluating, printing.
//
// Two spellings lead to one tree. `parse_srepr` reads SymPy's constructor calls, in which sizes are
// written; `parse_infix` reads the Python-like text of guards and of range-constraint keys.
//
//   SymExprPtr e = parse_srepr("Add(Symbol('s77', integer=True), Integer(1))");
//   evaluate(*e, [](const SymExprAst&) { return SymNumber(int64_t{4}); });   // 5
#pragma once

#include "core/error.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tenon::formats {

enum class SymOp : uint8_t {
  // Leaves. `integer`, `real` and `boolean` hold `number`; infinities are reals.
  integer,
  real,
  boolean,
  symbol,  ///< `name`
  input,   ///< `name` is the argument, `path` what follows: L['x'].size()[1], L['n'], L['o']['k']
  // n-ary
  add,
  mul,
  max,
  min,
  and_,
  or_,
  // unary
  neg,
  not_,
  abs,
  identity,
  to_float,
  trunc_to_int,
  floor_to_int,
  ceil_to_int,
  round_to_int,
  trunc_to_float,
  unary_function,  ///< `name`: sqrt, cos, …
  // binary
  rational,  ///< children p, q
  pow,       ///< also PowByNatural and FloatPow
  floor_div,
  mod,        ///< Mod, whose arguments are not negative, and PythonMod
  clean_div,  ///< exact
  true_div,   ///< IntTrueDiv, FloatTrueDiv, /
  round_decimal,
  l_shift,
  r_shift,
  bit_and,
  bit_or,
  bit_xor,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  // ternary
  where,             ///< condition, then, else
  modular_indexing,  ///< (a // b) % m
  // sizes…, strides…
  is_non_overlapping_and_dense,
};

using SymNumber = std::variant<int64_t, double, bool>;

/// One step from an argument to a value: an index or key of a container, or a size.
struct SymAccess {
  enum class Kind : uint8_t { index, key, attribute, size, stride, storage_offset, dim };
  Kind kind = Kind::index;
  int64_t index = 0;  ///< of `index`, `size` and `stride`
  std::string key;    ///< of `key` and `attribute`
};

struct SymExprAst;
using SymExprPtr = std::shared_ptr<const SymExprAst>;

struct SymExprAst {
  SymOp op = SymOp::integer;
  SymNumber number = int64_t{0};
  std::string name;
  std::vector<SymAccess> path;
  std::vector<SymExprPtr> children;
  int height = 1;  ///< levels below and including this one, at most limits::expression_depth
};

/// SymPy's `srepr`. Throws UserError(bad_file) for anything outside the fixed grammar.
SymExprPtr parse_srepr(std::string_view text);

/// Python infix: `L['x'].size()[1] % 2 == 0 and …`, `2*s69`. Throws UserError(bad_file).
SymExprPtr parse_infix(std::string_view text);

/// The value of a `symbol` or `input` leaf.
using SymLookup = std::function<std::optional<SymNumber>(const SymExprAst& leaf)>;

/// The value of `expr`. Integers are 64 bits, checked. Throws UserError(bad_file) for overflow,
/// division by zero, an unbound leaf or operands of the wrong kind.
SymNumber evaluate(const SymExprAst& expr, const SymLookup& lookup);

/// Infix text, for messages.
std::string to_text(const SymExprAst& expr);
std::string to_text(const SymNumber& number);

}  // namespace tenon::formats
