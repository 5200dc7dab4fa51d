// Evaluating and printing the expressions of .pt2 archives.
//
// Integers stay integers with checked 64-bit arithmetic; an operation with a double among its
// operands is done in doubles; booleans count as 0 and 1. Recursion is as deep as the tree, whose
// height the parsers bound.
#include "formats/pt2/pt2_expr.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "formats/limits.h"

namespace tenon::formats {

namespace {

using Numbers = std::vector<SymNumber>;

[[noreturn]] void fail_value(const SymExprAst& expr, std::string_view why) {
  fail(ErrorCode::bad_file, "expression \"{}\": {}", printable(to_text(expr)), why);
}

double as_double(const SymNumber& number) {
  return std::visit([](auto value) { return static_cast<double>(value); }, number);
}

bool is_real(const SymNumber& number) { return std::holds_alternative<double>(number); }

int64_t as_integer(const SymExprAst& expr, const SymNumber& number) {
  if (is_real(number)) fail_value(expr, "expected an integer, found a floating-point number");
  return std::holds_alternative<bool>(number) ? std::get<bool>(number) : std::get<int64_t>(number);
}

bool as_boolean(const SymNumber& number) {
  return std::visit([](auto value) { return value != 0; }, number);
}

int64_t checked(const SymExprAst& expr, bool overflow, int64_t value) {
  if (overflow) fail_value(expr, "the value does not fit into 64 bits");
  return value;
}

int64_t to_integer(const SymExprAst& expr, double value) {
  // 2^63 is the first double that does not fit.
  if (!(value >= -0x1p63 && value < 0x1p63))
    fail_value(expr, "the value does not fit into 64 bits");
  return static_cast<int64_t>(value);
}

int64_t floor_divide(const SymExprAst& expr, int64_t a, int64_t b) {
  if (b == 0) fail_value(expr, "division by zero");
  if (a == INT64_MIN && b == -1) fail_value(expr, "the value does not fit into 64 bits");
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t floor_remainder(const SymExprAst& expr, int64_t a, int64_t b) {
  if (b == 0) fail_value(expr, "division by zero");
  if (b == -1) return 0;
  int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

int64_t integer_power(const SymExprAst& expr, int64_t base, int64_t exponent) {
  int64_t result = 1;
  bool overflow = false;
  // Squares beyond the last bit of the exponent are not needed and may overflow.
  for (int64_t square = base; exponent != 0 && !overflow; exponent >>= 1) {
    if (exponent & 1) overflow = __builtin_mul_overflow(result, square, &result);
    if (exponent > 1) overflow = overflow || __builtin_mul_overflow(square, square, &square);
  }
  return checked(expr, overflow, result);
}

SymNumber sum_or_product(const SymExprAst& expr, const Numbers& v) {
  const bool product = expr.op == SymOp::mul;
  if (std::ranges::any_of(v, is_real)) {
    double result = product ? 1 : 0;
    for (const SymNumber& n : v) result = product ? result * as_double(n) : result + as_double(n);
    return result;
  }
  int64_t result = product ? 1 : 0;
  bool overflow = false;
  for (const SymNumber& n : v) {
    int64_t value = as_integer(expr, n);
    overflow = overflow || (product ? __builtin_mul_overflow(result, value, &result)
                                    : __builtin_add_overflow(result, value, &result));
  }
  return checked(expr, overflow, result);
}

// -1, 0 or 1; 2 when a NaN makes them unordered. A long double holds every int64_t and double.
int compare(const SymNumber& a, const SymNumber& b) {
  auto wide = [](const SymNumber& n) {
    return std::visit([](auto value) { return static_cast<long double>(value); }, n);
  };
  long double x = wide(a);
  long double y = wide(b);
  if (std::isnan(x) || std::isnan(y)) return 2;
  return x < y ? -1 : x > y;
}

SymNumber extreme(const SymExprAst& expr, const Numbers& v) {
  SymNumber best = v[0];
  for (const SymNumber& n : v) {
    int order = compare(n, best);
    if (order == (expr.op == SymOp::max ? 1 : -1)) best = n;
  }
  return best;
}

bool relation(const SymExprAst& expr, const Numbers& v) {
  const int order = compare(v[0], v[1]);
  switch (expr.op) {
    case SymOp::eq:
      return order == 0;
    case SymOp::ne:
      return order != 0;
    case SymOp::lt:
      return order == -1;
    case SymOp::le:
      return order == -1 || order == 0;
    case SymOp::gt:
      return order == 1;
    default:
      return order == 1 || order == 0;
  }
}

SymNumber negate(const SymExprAst& expr, const SymNumber& v) {
  if (is_real(v)) return -std::get<double>(v);
  int64_t result = 0;
  bool overflow = __builtin_sub_overflow(int64_t{0}, as_integer(expr, v), &result);
  return checked(expr, overflow, result);
}

SymNumber power(const SymExprAst& expr, const Numbers& v) {
  const bool integers = !is_real(v[0]) && !is_real(v[1]);
  if (integers && as_integer(expr, v[1]) >= 0)
    return integer_power(expr, as_integer(expr, v[0]), as_integer(expr, v[1]));
  if (as_double(v[0]) == 0 && as_double(v[1]) < 0) fail_value(expr, "division by zero");
  return std::pow(as_double(v[0]), as_double(v[1]));
}

SymNumber divide(const SymExprAst& expr, const Numbers& v) {
  if (as_double(v[1]) == 0) fail_value(expr, "division by zero");
  return as_double(v[0]) / as_double(v[1]);
}

SymNumber floor_quotient(const SymExprAst& expr, const Numbers& v) {
  if (is_real(v[0]) || is_real(v[1])) return std::floor(std::get<double>(divide(expr, v)));
  return floor_divide(expr, as_integer(expr, v[0]), as_integer(expr, v[1]));
}

SymNumber remainder(const SymExprAst& expr, const Numbers& v) {
  if (is_real(v[0]) || is_real(v[1])) {
    double b = as_double(v[1]);
    if (b == 0) fail_value(expr, "division by zero");
    double r = std::fmod(as_double(v[0]), b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  }
  return floor_remainder(expr, as_integer(expr, v[0]), as_integer(expr, v[1]));
}

SymNumber shift(const SymExprAst& expr, const Numbers& v) {
  const int64_t value = as_integer(expr, v[0]);
  const int64_t count = as_integer(expr, v[1]);
  if (count < 0) fail_value(expr, "a shift by a negative number");
  if (expr.op == SymOp::r_shift) return value >> std::min<int64_t>(count, 63);
  if (value == 0) return int64_t{0};
  if (count > 62) fail_value(expr, "the value does not fit into 64 bits");
  int64_t result = 0;
  bool overflow = __builtin_mul_overflow(value, int64_t{1} << count, &result);
  return checked(expr, overflow, result);
}

SymNumber unary_function(const SymExprAst& expr, double x) {
  struct Row {
    std::string_view name;
    double (*function)(double);
  };
  static constexpr Row rows[] = {{"sqrt", std::sqrt}, {"cos", std::cos},    {"cosh", std::cosh},
                                 {"sin", std::sin},   {"sinh", std::sinh},  {"tan", std::tan},
                                 {"tanh", std::tanh}, {"asin", std::asin},  {"acos", std::acos},
                                 {"atan", std::atan}, {"exp", std::exp},    {"log", std::log},
                                 {"log2", std::log2}, {"asinh", std::asinh}};
  const Row* row = std::ranges::find(rows, std::string_view(expr.name), &Row::name);
  if (row == std::end(rows)) fail_value(expr, "an unknown function");
  return row->function(x);
}

SymNumber round_decimal(const SymExprAst& expr, const Numbers& v) {
  const double scale = std::pow(10.0, static_cast<double>(as_integer(expr, v[1])));
  const double scaled = as_double(v[0]) * scale;
  return std::isfinite(scaled) ? std::nearbyint(scaled) / scale : as_double(v[0]);
}

// Whether sizes and strides (the two halves of `v`) describe memory without gaps or overlap.
SymNumber dense(const SymExprAst& expr, const Numbers& v) {
  if (v.size() % 2 != 0) fail_value(expr, "expected as many strides as sizes");
  const size_t rank = v.size() / 2;
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  auto stride = [&](size_t i) { return as_integer(expr, v[rank + i]); };
  auto size = [&](size_t i) { return as_integer(expr, v[i]); };
  std::ranges::sort(order, {}, [&](size_t i) { return std::pair(stride(i), i); });
  int64_t expected = 1;
  for (size_t i : order) {
    if (size(i) == 1) continue;
    if (stride(i) != expected) return int64_t{0};
    int64_t next = 0;
    bool overflow = __builtin_mul_overflow(expected, size(i), &next);
    expected = checked(expr, overflow, next);
  }
  return int64_t{1};
}

SymNumber apply_unary(const SymExprAst& expr, const SymNumber& v) {
  switch (expr.op) {
    case SymOp::neg:
      return negate(expr, v);
    case SymOp::not_:
      return !as_boolean(v);
    case SymOp::abs:
      if (is_real(v)) return std::fabs(std::get<double>(v));
      return as_integer(expr, v) < 0 ? negate(expr, v) : v;
    case SymOp::to_float:
      return as_double(v);
    case SymOp::trunc_to_int:
      return to_integer(expr, std::trunc(as_double(v)));
    case SymOp::floor_to_int:
      return to_integer(expr, std::floor(as_double(v)));
    case SymOp::ceil_to_int:
      return to_integer(expr, std::ceil(as_double(v)));
    case SymOp::round_to_int:
      return to_integer(expr, std::nearbyint(as_double(v)));
    case SymOp::trunc_to_float:
      return std::trunc(as_double(v));
    case SymOp::unary_function:
      return unary_function(expr, as_double(v));
    default:
      return v;
  }
}

// Operators on integers only.
SymNumber apply_integers(const SymExprAst& expr, const Numbers& v) {
  auto integer = [&](size_t i) { return as_integer(expr, v[i]); };
  switch (expr.op) {
    case SymOp::clean_div:
      if (floor_remainder(expr, integer(0), integer(1)) != 0)
        fail_value(expr, "the division leaves a remainder");
      return floor_divide(expr, integer(0), integer(1));
    case SymOp::bit_and:
      return integer(0) & integer(1);
    case SymOp::bit_or:
      return integer(0) | integer(1);
    case SymOp::bit_xor:
      return integer(0) ^ integer(1);
    case SymOp::l_shift:
    case SymOp::r_shift:
      return shift(expr, v);
    default:
      return floor_remainder(expr, floor_divide(expr, integer(0), integer(1)), integer(2));
  }
}

SymNumber apply_op(const SymExprAst& expr, const Numbers& v) {
  switch (expr.op) {
    case SymOp::add:
    case SymOp::mul:
      return sum_or_product(expr, v);
    case SymOp::max:
    case SymOp::min:
      return extreme(expr, v);
    case SymOp::rational:
    case SymOp::true_div:
      return divide(expr, v);
    case SymOp::pow:
      return power(expr, v);
    case SymOp::floor_div:
      return floor_quotient(expr, v);
    case SymOp::mod:
      return remainder(expr, v);
    case SymOp::clean_div:
    case SymOp::bit_and:
    case SymOp::bit_or:
    case SymOp::bit_xor:
    case SymOp::l_shift:
    case SymOp::r_shift:
    case SymOp::modular_indexing:
      return apply_integers(expr, v);
    case SymOp::round_decimal:
      return round_decimal(expr, v);
    case SymOp::eq:
    case SymOp::ne:
    case SymOp::lt:
    case SymOp::le:
    case SymOp::gt:
    case SymOp::ge:
      return relation(expr, v);
    case SymOp::is_non_overlapping_and_dense:
      return dense(expr, v);
    default:
      return apply_unary(expr, v[0]);
  }
}

// Evaluates no more operands than decide the result, as Python does: a guard may protect a
// division.
SymNumber short_circuit(const SymExprAst& expr, const SymLookup& lookup) {
  if (expr.op == SymOp::where) {
    bool condition = as_boolean(evaluate(*expr.children[0], lookup));
    return evaluate(*expr.children[condition ? 1 : 2], lookup);
  }
  const bool decisive = expr.op == SymOp::or_;
  for (const SymExprPtr& child : expr.children)
    if (as_boolean(evaluate(*child, lookup)) == decisive) return decisive;
  return !decisive;
}

}  // namespace

SymNumber evaluate(const SymExprAst& expr, const SymLookup& lookup) {
  switch (expr.op) {
    case SymOp::integer:
    case SymOp::real:
    case SymOp::boolean:
      return expr.number;
    case SymOp::symbol:
    case SymOp::input: {
      std::optional<SymNumber> value = lookup(expr);
      if (!value) fail_value(expr, "has no value: nothing binds it");
      return *value;
    }
    case SymOp::where:
    case SymOp::and_:
    case SymOp::or_:
      return short_circuit(expr, lookup);
    default:
      break;
  }
  Numbers values;
  values.reserve(expr.children.size());
  for (const SymExprPtr& child : expr.children) values.push_back(evaluate(*child, lookup));
  return apply_op(expr, values);
}

}  // namespace tenon::formats
