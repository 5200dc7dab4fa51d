// Symbolic expressions: immutable, interned nodes over sizes such as `2*s0 + 1`.
//
// Equal expressions are the same pointer, in the whole process, and live for ever; symbols are
// numbers that a ShapeEnv (shape_env.h) hands out and gives meaning to. The numbers of a dead
// environment are used again, so the nodes are too and memory stays bounded.
//
// Build expressions with make_expr (sym_simplify.h), which brings them into canonical form; the
// intern_* functions here store a node exactly as it is given.
//
// Parts are shared, so a short program can make an expression whose text would fill the memory.
// Nodes of more than max_tree_nodes are refused.
//
// Threads: nodes are constant; interning takes one lock of sixteen, chosen by hash.
#pragma once

#include <tenon/sym.h>

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tenon {

enum class ExprKind : uint8_t { boolean, integer, real };

struct Expr {
  SymOp op;
  ExprKind kind;
  uint16_t degree;  ///< of the polynomial: 0 for constants, 1 for symbols and opaque operations
  uint32_t n_operands;
  uint64_t symbol_mask;  ///< bit (id mod 64) is set for every symbol inside
  int64_t payload;       ///< the constant, the bits of a double, or the number of a symbol
  uint32_t hash;
  uint32_t tree_nodes;  ///< counting shared parts each time: what a walk or a text costs

  std::span<const Expr* const> operands() const {
    return {reinterpret_cast<const Expr* const*>(this + 1), n_operands};
  }
  const Expr* operand(size_t i) const { return operands()[i]; }
  bool is_constant() const { return op == SymOp::constant; }
  bool is_symbol() const { return op == SymOp::symbol; }
  bool is_integer(int64_t value) const {
    return is_constant() && kind == ExprKind::integer && payload == value;
  }
  bool is_true() const { return is_constant() && kind == ExprKind::boolean && payload != 0; }
  bool is_false() const { return is_constant() && kind == ExprKind::boolean && payload == 0; }
  int64_t integer() const { return payload; }  ///< of integer and boolean constants
  double real() const { return std::bit_cast<double>(payload); }  ///< of real constants
  uint32_t symbol() const { return static_cast<uint32_t>(payload); }
};

inline constexpr uint32_t max_tree_nodes = 1 << 15;

const Expr* intern_integer(int64_t value);
const Expr* intern_real(double value);
const Expr* intern_boolean(bool value);
/// The kind is part of the identity: number 3 as an integer and as a double are two symbols.
const Expr* intern_symbol(uint32_t id, ExprKind kind);
/// Throws UserError (unsupported) where the tree has more than max_tree_nodes.
const Expr* intern_node(SymOp op, ExprKind kind, std::span<const Expr* const> operands);

/// Nodes made so far in the process.
size_t interned_count();

/// The total order of canonical forms: higher degree first, then by structure; symbols by number.
/// Negative, zero or positive. Depends on structure only, never on addresses.
int compare_order(const Expr* a, const Expr* b);

/// The symbols inside, each once, by number.
std::vector<const Expr*> free_symbols(const Expr* expr);
bool contains(const Expr* expr, const Expr* part);

/// The value as an expression, and back; constants come back as plain values.
const Expr* as_expr(SymInt value);
const Expr* as_expr(SymBool value);
const Expr* as_expr(SymFloat value);
SymInt as_sym_int(const Expr* expr);
SymBool as_sym_bool(const Expr* expr);
SymFloat as_sym_float(const Expr* expr);

}  // namespace tenon
