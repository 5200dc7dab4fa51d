// Infix text of the expressions in .pt2 archives, for messages.
#include "formats/pt2/pt2_expr.h"

namespace tenon::formats {

namespace {

// How an operator is written: between its operands, or as a function.
struct Spelling {
  SymOp op;
  std::string_view text;
  bool infix;
};

constexpr Spelling spellings[] = {
    {SymOp::add, " + ", true},
    {SymOp::mul, "*", true},
    {SymOp::max, "max", false},
    {SymOp::min, "min", false},
    {SymOp::and_, " and ", true},
    {SymOp::or_, " or ", true},
    {SymOp::neg, "-", false},
    {SymOp::not_, "not ", false},
    {SymOp::abs, "abs", false},
    {SymOp::identity, "", false},
    {SymOp::to_float, "float", false},
    {SymOp::trunc_to_int, "trunc", false},
    {SymOp::floor_to_int, "floor", false},
    {SymOp::ceil_to_int, "ceil", false},
    {SymOp::round_to_int, "RoundToInt", false},
    {SymOp::trunc_to_float, "TruncToFloat", false},
    {SymOp::rational, "/", true},
    {SymOp::pow, "**", true},
    {SymOp::floor_div, "//", true},
    {SymOp::mod, " % ", true},
    {SymOp::clean_div, "//", true},
    {SymOp::true_div, "/", true},
    {SymOp::round_decimal, "RoundDecimal", false},
    {SymOp::l_shift, "LShift", false},
    {SymOp::r_shift, "RShift", false},
    {SymOp::bit_and, "BitwiseFn_bitwise_and", false},
    {SymOp::bit_or, "BitwiseFn_bitwise_or", false},
    {SymOp::bit_xor, "BitwiseFn_bitwise_xor", false},
    {SymOp::eq, " == ", true},
    {SymOp::ne, " != ", true},
    {SymOp::lt, " < ", true},
    {SymOp::le, " <= ", true},
    {SymOp::gt, " > ", true},
    {SymOp::ge, " >= ", true},
    {SymOp::where, "Where", false},
    {SymOp::modular_indexing, "ModularIndexing", false},
    {SymOp::is_non_overlapping_and_dense, "IsNonOverlappingAndDenseIndicator", false},
};

std::string text_of(const SymAccess& access) {
  const std::string index = "[" + std::to_string(access.index) + "]";
  switch (access.kind) {
    case SymAccess::Kind::index:
      return index;
    case SymAccess::Kind::key:
      return "['" + access.key + "']";
    case SymAccess::Kind::attribute:
      return "." + access.key;
    case SymAccess::Kind::size:
      return ".size()" + index;
    case SymAccess::Kind::stride:
      return ".stride()" + index;
    case SymAccess::Kind::storage_offset:
      return ".storage_offset()";
    case SymAccess::Kind::dim:
      return ".dim()";
  }
  return {};
}

void append(const SymExprAst& expr, bool nested, std::string& out);

void append_leaf(const SymExprAst& expr, std::string& out) {
  if (expr.op == SymOp::symbol) {
    out += expr.name;
  } else if (expr.op == SymOp::input) {
    out += "L['" + expr.name + "']";
    for (const SymAccess& access : expr.path) out += text_of(access);
  } else {
    out += to_text(expr.number);
  }
}

void append_joined(const SymExprAst& expr, std::string_view separator, bool nested,
                   std::string& out) {
  bool first = true;
  for (const SymExprPtr& child : expr.children) {
    if (!first) out += separator;
    first = false;
    append(*child, nested, out);
  }
}

void append(const SymExprAst& expr, bool nested, std::string& out) {
  if (expr.children.empty()) return append_leaf(expr, out);
  Spelling spelling{expr.op, expr.name, false};
  for (const Spelling& row : spellings)
    if (row.op == expr.op) spelling = row;
  if (!spelling.infix) {
    out += spelling.text;
    out += '(';
    append_joined(expr, ", ", false, out);
    out += ')';
    return;
  }
  if (nested) out += '(';
  append_joined(expr, spelling.text, true, out);
  if (nested) out += ')';
}

}  // namespace

std::string to_text(const SymExprAst& expr) {
  std::string out;
  append(expr, false, out);
  return out;
}

std::string to_text(const SymNumber& number) {
  if (const auto* value = std::get_if<double>(&number)) return message("{}", *value);
  if (const auto* value = std::get_if<bool>(&number)) return *value ? "True" : "False";
  return std::to_string(std::get<int64_t>(number));
}

}  // namespace tenon::formats
