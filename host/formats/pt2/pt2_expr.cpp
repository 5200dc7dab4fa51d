// SymPy's functions and leaves as expressions of Tenon.
#include "formats/pt2/pt2_expr.h"

#include "core/error.h"
#include "core/sym/sym_simplify.h"
#include "core/utf8.h"
#include "formats/limits.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace tenon::formats {

namespace {

using Operands = std::span<const Expr* const>;

// Functions that are an operation of Tenon, operands in the same order.
constexpr std::pair<std::string_view, SymOp> operations[] = {
    {"Add", SymOp::add},
    {"Mul", SymOp::mul},
    {"Max", SymOp::max},
    {"Min", SymOp::min},
    {"sym_max", SymOp::max},
    {"sym_min", SymOp::min},
    {"And", SymOp::and_},
    {"Or", SymOp::or_},
    {"Not", SymOp::not_},
    {"sym_not", SymOp::not_},
    {"ToFloat", SymOp::to_float},
    {"sym_float", SymOp::to_float},
    {"TruncToInt", SymOp::trunc},
    {"int", SymOp::trunc},
    {"trunc", SymOp::trunc},
    {"FloorToInt", SymOp::floor_to_int},
    {"floor", SymOp::floor_to_int},
    {"CeilToInt", SymOp::ceil_to_int},
    {"ceiling", SymOp::ceil_to_int},
    {"ceil", SymOp::ceil_to_int},
    {"RoundToInt", SymOp::round_to_int},
    {"PowByNatural", SymOp::pow},
    {"FloatPow", SymOp::pow},
    {"FloorDiv", SymOp::floordiv},
    {"CleanDiv", SymOp::floordiv},  // exact
    {"Mod", SymOp::mod},
    {"PythonMod", SymOp::mod},
    {"Rational", SymOp::truediv},
    {"FloatTrueDiv", SymOp::truediv},
    {"IntTrueDiv", SymOp::truediv},
    {"Equality", SymOp::eq},
    {"Eq", SymOp::eq},
    {"Unequality", SymOp::ne},
    {"Ne", SymOp::ne},
    {"StrictLessThan", SymOp::lt},
    {"LessThan", SymOp::le},
    {"Where", SymOp::select},
    {"sym_ite", SymOp::select},
};

const Expr* same(Operands v) { return v[0]; }
const Expr* absolute(Operands v) {
  return make_expr(SymOp::max, {v[0], make_expr(SymOp::mul, {intern_integer(-1), v[0]})});
}
const Expr* truncated(Operands v) {
  return make_expr(SymOp::to_float, {make_expr(SymOp::trunc, v)});
}
const Expr* square_root(Operands v) { return make_expr(SymOp::pow, {v[0], intern_real(0.5)}); }
// Integers have no negative powers.
const Expr* power(Operands v) {
  bool is_inverse = v[1]->is_constant() && v[1]->kind == ExprKind::integer && v[1]->integer() < 0;
  if (!is_inverse) return make_expr(SymOp::pow, v);
  return make_expr(SymOp::pow, {v[0], intern_real(static_cast<double>(v[1]->integer()))});
}
const Expr* greater(Operands v) { return make_expr(SymOp::lt, {v[1], v[0]}); }
const Expr* greater_or_equal(Operands v) { return make_expr(SymOp::le, {v[1], v[0]}); }
const Expr* power_of_two(const Expr* e) { return make_expr(SymOp::pow, {intern_integer(2), e}); }
const Expr* shifted_left(Operands v) { return make_expr(SymOp::mul, {v[0], power_of_two(v[1])}); }
const Expr* shifted_right(Operands v) {
  return make_expr(SymOp::floordiv, {v[0], power_of_two(v[1])});
}

const Expr* scaled(int64_t factor, const Expr* e) {
  return make_expr(SymOp::mul, {intern_integer(factor), e});
}
const Expr* difference(const Expr* a, const Expr* b) {
  return make_expr(SymOp::add, {a, scaled(-1, b)});
}
// The bits of `x` that `mask` has, as arithmetic: n of them from bit b on are x // 2^b % 2^n * 2^b.
const Expr* masked(const Expr* x, int64_t mask) {
  if (mask < 0) return difference(x, masked(x, ~mask));
  const Expr* sum = intern_integer(0);
  for (auto rest = static_cast<uint64_t>(mask); rest != 0;) {
    const int b = std::countr_zero(rest), n = std::countr_one(rest >> b);
    require(b + n < 63, ErrorCode::unsupported, "bits of numbers beyond 2^62 are not supported");
    const Expr* low = make_expr(SymOp::floordiv, {x, intern_integer(int64_t{1} << b)});
    const Expr* run = make_expr(SymOp::mod, {low, intern_integer(int64_t{1} << n)});
    sum = make_expr(SymOp::add, {sum, scaled(int64_t{1} << b, run)});
    rest &= ~uint64_t{0} << (b + n);
  }
  return sum;
}
// {x, x & c, c} of an expression and a constant, in either order.
std::array<const Expr*, 3> common_bits(Operands v) {
  const Expr *x = v[0], *c = v[1];
  if (x->is_constant()) std::swap(x, c);
  bool fits = c->is_constant() && x->kind == ExprKind::integer && c->kind == ExprKind::integer;
  require(fits, ErrorCode::unsupported, "& | ^ are supported between an integer and a constant");
  return {x, masked(x, c->integer()), c};
}
const Expr* bits_of_both(Operands v) { return common_bits(v)[1]; }
const Expr* bits_of_any(Operands v) {
  auto [x, common, c] = common_bits(v);
  return make_expr(SymOp::add, {x, difference(c, common)});
}
const Expr* bits_of_one(Operands v) {
  auto [x, common, c] = common_bits(v);
  return make_expr(SymOp::add, {x, difference(c, scaled(2, common))});
}
const Expr* modular_index(Operands v) {
  return make_expr(SymOp::mod, {make_expr(SymOp::floordiv, {v[0], v[1]}), v[2]});
}

struct Function {
  std::string_view name;
  size_t n_operands;
  const Expr* (*make)(Operands);
};

constexpr Function functions[] = {
    {"Integer", 1, same},
    {"Identity", 1, same},
    {"Abs", 1, absolute},
    {"abs", 1, absolute},
    {"TruncToFloat", 1, truncated},
    {"OpaqueUnaryFn_sqrt", 1, square_root},
    {"sqrt", 1, square_root},
    {"_sym_sqrt", 1, square_root},
    {"Pow", 2, power},
    {"StrictGreaterThan", 2, greater},
    {"GreaterThan", 2, greater_or_equal},
    {"BitwiseFn_bitwise_and", 2, bits_of_both},
    {"&", 2, bits_of_both},
    {"BitwiseFn_bitwise_or", 2, bits_of_any},
    {"|", 2, bits_of_any},
    {"BitwiseFn_bitwise_xor", 2, bits_of_one},
    {"^", 2, bits_of_one},
    {"LShift", 2, shifted_left},
    {"RShift", 2, shifted_right},
    {"ModularIndexing", 3, modular_index},
};

// What Tenon's expressions have no operation for.
constexpr std::string_view unsaid[] = {
    "cos",  "cosh", "sin",   "sinh",         "tan",
    "tanh", "asin", "acos",  "atan",         "exp",
    "log",  "log2", "asinh", "RoundDecimal", "IsNonOverlappingAndDenseIndicator"};

std::string_view without(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

const Expr* call_of(std::string_view name, Operands operands) {
  name = without(without(name, "math."), "torch.");
  for (const auto& [known, op] : operations)
    if (name == known) return make_expr(op, operands);
  if (const auto* f = std::ranges::find(functions, name, &Function::name);
      f != std::end(functions)) {
    require(operands.size() == f->n_operands, "{} takes {} arguments, found {}", name,
            f->n_operands, operands.size());
    return f->make(operands);
  }
  bool is_unsaid = std::ranges::count(unsaid, without(name, "OpaqueUnaryFn_")) > 0;
  require(!is_unsaid, ErrorCode::unsupported, "{} of sizes is not supported", name);
  return nullptr;
}

const Expr* constant(std::string_view name) {
  if (name == "True" || name == "False") return intern_boolean(name == "True");
  if (name == "int_oo" || name == "oo" || name == "math.inf") return intern_real(INFINITY);
  return name == "zoo" || name == "math.nan" ? intern_real(NAN) : nullptr;
}

bool is_plain(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
}

// The text in quotes of `Symbol('s0', integer=True)`; the keywords say nothing that is needed.
std::string_view quoted(std::string_view call) {
  size_t begin = call.find_first_of("'\"") + 1;
  size_t end = call.find(call[begin - 1], begin);
  return call.find(')', end) + 1 == call.size() ? call.substr(begin, end - begin) : "";
}

// "0.5", "1e30", "inf", "nan": all that SymPy may write.
const Expr* real(const std::string& text) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  return text.empty() || *end != '\0' ? nullptr : intern_real(value);
}

template <class F>
const Expr* read_with(std::string_view text, F parse) {
  require(text.size() <= limits::expression_length, ErrorCode::bad_file,
          "expression \"{}\": expected at most {} characters, found {}", printable(text),
          limits::expression_length, text.size());
  require(shown(text) == text, ErrorCode::bad_file,
          "expression \"{}\": expected UTF-8 without control characters", printable(text));
  try {
    return parse();
  } catch (const UserError& error) {
    if (error.code() == ErrorCode::unsupported) throw;
    fail(ErrorCode::bad_file, "{}", error.what());
  }
}

}  // namespace

const Expr* Pt2Expressions::symbol(std::string_view name) {
  auto [at, is_new] = symbols_.try_emplace(std::string(name));
  if (is_new && symbols_.size() <= limits::symbols) {
    // As PyTorch names them.
    ExprKind kind = name.starts_with("z") ? ExprKind::real : ExprKind::integer;
    at->second = env_->declare_symbol(name, kind, std::nullopt, {}, {}, std::string(name));
  }
  return at->second;
}

const Expr* Pt2Expressions::leaf(std::string_view name) {
  if (const Expr* known = constant(name)) return known;
  if (name.starts_with("Float(")) return real(std::string(quoted(name)));
  if (name.starts_with("Symbol(") || name.starts_with("Dummy(")) name = quoted(name);
  return is_plain(name) ? symbol(name) : nullptr;
}

// `Piecewise(ExprCondPair(a, c), ExprCondPair(b, true))` is a where c, else b. A pair is read as a
// choice whose other side is yet to come.
const Expr* Pt2Expressions::call(std::string_view name, std::span<const Expr* const> operands) {
  if (name == "ExprCondPair" && operands.size() == 2)
    return make_expr(SymOp::select, {operands[1], operands[0], otherwise()});
  if (name != "Piecewise" || operands.empty()) return call_of(name, operands);
  const Expr* rest = operands.back();
  for (size_t i = operands.size() - 1; i-- > 0;)
    rest =
        substitute(operands[i], [&](const Expr* s) { return s == otherwise() ? rest : nullptr; });
  return rest;
}

const Expr* Pt2Expressions::otherwise() {
  if (!otherwise_)
    otherwise_ =
        env_->declare_symbol("else of a choice", ExprKind::integer, std::nullopt, {}, {}, "");
  return otherwise_;
}

// A case of a choice means nothing outside of one.
const Expr* Pt2Expressions::without_open_choice(const Expr* e) {
  if (e && otherwise_)
    require(std::ranges::count(free_symbols(e), otherwise_) == 0, ErrorCode::unsupported,
            "a case outside of a choice is not supported");
  return e;
}

const Expr* Pt2Expressions::read(const std::string& text) {
  auto [at, is_new] = read_.try_emplace(text);
  if (!is_new) return at->second;
  try {
    at->second = read_with(text, [&] {
      return without_open_choice(parse_expr(
          text, [this](std::string_view name) { return leaf(name); }, nullptr,
          [this](std::string_view name, Operands operands) { return call(name, operands); }));
    });
  } catch (const UserError& error) {
    if (error.code() != ErrorCode::unsupported) throw;
  }
  return at->second;
}

const Expr* Pt2Expressions::read_guard(std::string_view text, const SymbolLookup& place) {
  return read_with(text, [&] {
    return without_open_choice(parse_expr(
        text,
        [&](std::string_view name) { return name.starts_with("L[") ? place(name) : leaf(name); },
        nullptr,
        [this](std::string_view name, Operands operands) { return call(name, operands); }));
  });
}

}  // namespace tenon::formats
