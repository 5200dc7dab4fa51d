// Zeros have signs: what PyTorch 2.13 gives for them on a CPU, eager and compiled by each backend.
#include "backend/backend.h"
#include "backend/catalog.h"

#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace tenon {
namespace {

/// An op and its results for 0 and -0; "?" where PyTorch's depend on the place, on the dtype, or on
/// how an exponent is given.
struct UnaryRow {
  const char* name;
  Tensor (*op)(const Tensor& x);
  const char* results;
};

const UnaryRow unary_rows[] = {
    // activations
    {"relu", [](const Tensor& x) { return relu(x); }, "0 -0"},
    {"relu6", [](const Tensor& x) { return relu6(x); }, "0 -0"},
    {"hardtanh", [](const Tensor& x) { return hardtanh(x); }, "0 -0"},
    {"hardtanh from -0", [](const Tensor& x) { return hardtanh(x, -0.0, 1.0); }, "0 -0"},
    {"hardtanh from 0", [](const Tensor& x) { return hardtanh(x, 0.0, 1.0); }, "0 -0"},
    {"hardtanh to 0", [](const Tensor& x) { return hardtanh(x, -1.0, 0.0); }, "0 -0"},
    {"threshold to 0", [](const Tensor& x) { return threshold(x, 0.0, 0.0); }, "0 0"},
    {"threshold to -0", [](const Tensor& x) { return threshold(x, 0.0, -0.0); }, "-0 -0"},
    {"threshold below", [](const Tensor& x) { return threshold(x, -1.0, 5.0); }, "0 -0"},
    {"leaky_relu", [](const Tensor& x) { return leaky_relu(x); }, "0 -0"},
    {"elu", [](const Tensor& x) { return elu(x); }, "0 -0"},
    {"celu", [](const Tensor& x) { return celu(x); }, "0 -0"},
    {"selu", [](const Tensor& x) { return selu(x); }, "0 -0"},
    {"gelu", [](const Tensor& x) { return gelu(x); }, "0 -0"},
    {"gelu by tanh", [](const Tensor& x) { return gelu(x, "tanh"); }, "0 -0"},
    {"silu", [](const Tensor& x) { return silu(x); }, "0 -0"},
    {"mish", [](const Tensor& x) { return mish(x); }, "0 -0"},
    {"softsign", [](const Tensor& x) { return softsign(x); }, "0 -0"},
    {"hardshrink", [](const Tensor& x) { return hardshrink(x); }, "0 0"},
    {"softshrink", [](const Tensor& x) { return softshrink(x); }, "0 ?"},
    {"hardswish", [](const Tensor& x) { return hardswish(x); }, "0 -0"},
    {"hardsigmoid", [](const Tensor& x) { return hardsigmoid(x); }, "0.5 0.5"},
    {"prelu", [](const Tensor& x) { return prelu(x, full({1}, 0.25, x.dtype())); }, "0 -0"},
    {"softplus", [](const Tensor& x) { return softplus(x); }, "0.693147 0.693147"},
    {"threshold_backward", [](const Tensor& x) { return threshold_backward(x, ones_like(x), 0.0); },
     "0 -0"},
    {"threshold_backward below",
     [](const Tensor& x) { return threshold_backward(x, ones_like(x).neg(), 0.0); }, "0 0"},
    // bounds
    {"clamp from 0", [](const Tensor& x) { return clamp(x, 0.0, 1.0); }, "0 -0"},
    {"clamp to 0", [](const Tensor& x) { return clamp(x, -1.0, 0.0); }, "0 -0"},
    {"clamp to -0", [](const Tensor& x) { return clamp(x, -1.0, -0.0); }, "0 -0"},
    {"clamp_min 0", [](const Tensor& x) { return clamp_min(x, 0.0); }, "0 -0"},
    {"clamp_min -0", [](const Tensor& x) { return clamp_min(x, -0.0); }, "0 -0"},
    {"clamp_max 0", [](const Tensor& x) { return clamp_max(x, 0.0); }, "0 -0"},
    {"clamp_max -0", [](const Tensor& x) { return clamp_max(x, -0.0); }, "0 -0"},
    // signs and rounding
    {"abs", [](const Tensor& x) { return abs(x); }, "0 0"},
    {"neg", [](const Tensor& x) { return neg(x); }, "-0 0"},
    {"sign", [](const Tensor& x) { return sign(x); }, "0 0"},
    {"sgn", [](const Tensor& x) { return sgn(x); }, "0 0"},
    {"signbit", [](const Tensor& x) { return signbit(x).to(x.dtype()); }, "0 1"},
    {"positive", [](const Tensor& x) { return positive(x).clone(); }, "0 -0"},
    {"copysign", [](const Tensor& x) { return copysign(ones_like(x), x); }, "1 -1"},
    {"round", [](const Tensor& x) { return round(x); }, "0 -0"},
    {"round to places", [](const Tensor& x) { return round(x, 2); }, "0 -0"},
    {"trunc", [](const Tensor& x) { return trunc(x); }, "0 -0"},
    {"frac", [](const Tensor& x) { return frac(x); }, "0 0"},
    {"floor", [](const Tensor& x) { return floor(x); }, "0 -0"},
    {"ceil", [](const Tensor& x) { return ceil(x); }, "0 -0"},
    {"nan_to_num", [](const Tensor& x) { return nan_to_num(x); }, "0 -0"},
    {"heaviside", [](const Tensor& x) { return heaviside(x, x.neg()); }, "-0 0"},
    // roots and powers
    {"sqrt", [](const Tensor& x) { return sqrt(x); }, "0 -0"},
    {"rsqrt", [](const Tensor& x) { return rsqrt(x); }, "inf -inf"},
    {"reciprocal", [](const Tensor& x) { return reciprocal(x); }, "inf -inf"},
    {"square", [](const Tensor& x) { return square(x); }, "0 0"},
    {"pow 2", [](const Tensor& x) { return pow(x, 2.0); }, "0 0"},
    {"pow 3", [](const Tensor& x) { return pow(x, 3.0); }, "0 -0"},
    {"pow 0.5", [](const Tensor& x) { return pow(x, 0.5); }, "0 ?"},
    {"pow 1", [](const Tensor& x) { return pow(x, 1.0); }, "0 -0"},
    {"pow -1", [](const Tensor& x) { return pow(x, -1.0); }, "inf -inf"},
    {"pow -2", [](const Tensor& x) { return pow(x, -2.0); }, "inf inf"},
    {"pow -0.5", [](const Tensor& x) { return pow(x, -0.5); }, "inf ?"},
    {"pow 0", [](const Tensor& x) { return pow(x, 0.0); }, "1 1"},
    {"pow -3", [](const Tensor& x) { return pow(x, -3.0); }, "inf -inf"},
    {"pow 5", [](const Tensor& x) { return pow(x, 5.0); }, "0 -0"},
    {"pow 2.5", [](const Tensor& x) { return pow(x, 2.5); }, "0 0"},
    // functions
    {"sin", [](const Tensor& x) { return sin(x); }, "0 -0"},
    {"tan", [](const Tensor& x) { return tan(x); }, "0 -0"},
    {"asin", [](const Tensor& x) { return asin(x); }, "0 -0"},
    {"atan", [](const Tensor& x) { return atan(x); }, "0 -0"},
    {"sinh", [](const Tensor& x) { return sinh(x); }, "0 -0"},
    {"tanh", [](const Tensor& x) { return tanh(x); }, "0 -0"},
    {"asinh", [](const Tensor& x) { return asinh(x); }, "0 -0"},
    {"atanh", [](const Tensor& x) { return atanh(x); }, "0 -0"},
    {"expm1", [](const Tensor& x) { return expm1(x); }, "0 -0"},
    {"log1p", [](const Tensor& x) { return log1p(x); }, "0 -0"},
    {"log", [](const Tensor& x) { return log(x); }, "-inf -inf"},
    {"log2", [](const Tensor& x) { return log2(x); }, "-inf -inf"},
    {"log10", [](const Tensor& x) { return log10(x); }, "-inf -inf"},
    {"logit", [](const Tensor& x) { return logit(x); }, "-inf -inf"},
    {"erf", [](const Tensor& x) { return erf(x); }, "0 -0"},
    {"erfinv", [](const Tensor& x) { return erfinv(x); }, "0 -0"},
    {"lgamma", [](const Tensor& x) { return lgamma(x); }, "inf inf"},
    {"digamma", [](const Tensor& x) { return digamma(x); }, "-inf inf"},
    {"sinc", [](const Tensor& x) { return sinc(x); }, "1 1"},
    {"special_entr", [](const Tensor& x) { return special_entr(x); }, "0 0"},
    {"xlogy", [](const Tensor& x) { return xlogy(x, 2.0); }, "0 0"},
    {"deg2rad", [](const Tensor& x) { return deg2rad(x); }, "0 -0"},
    {"rad2deg", [](const Tensor& x) { return rad2deg(x); }, "0 -0"},
    // arithmetic with numbers
    {"x + 0", [](const Tensor& x) { return x + 0.0; }, "0 0"},
    {"x - 0", [](const Tensor& x) { return x - 0.0; }, "0 -0"},
    {"0 + x", [](const Tensor& x) { return 0.0 + x; }, "0 0"},
    {"0 - x", [](const Tensor& x) { return 0.0 - x; }, "0 0"},
    {"rsub", [](const Tensor& x) { return rsub(x, 0.0); }, "0 0"},
    {"x * 1", [](const Tensor& x) { return x * 1.0; }, "0 -0"},
    {"x * -1", [](const Tensor& x) { return x * -1.0; }, "-0 0"},
    {"x * 0", [](const Tensor& x) { return x * 0.0; }, "0 -0"},
    {"x / 1", [](const Tensor& x) { return x / 1.0; }, "0 -0"},
    {"fmod", [](const Tensor& x) { return fmod(x, 1.0); }, "0 -0"},
    {"fmod by -1", [](const Tensor& x) { return fmod(x, -1.0); }, "0 -0"},
    {"remainder", [](const Tensor& x) { return remainder(x, 1.0); }, "0 -0"},
    {"remainder by -1", [](const Tensor& x) { return remainder(x, -1.0); }, "0 -0"},
    {"floor_divide", [](const Tensor& x) { return floor_divide(x, 1.0); }, "0 -0"},
    {"floor_divide by -1", [](const Tensor& x) { return floor_divide(x, -1.0); }, "-0 0"},
    {"div, truncated", [](const Tensor& x) { return div(x, 1.0, "trunc"); }, "0 -0"},
    {"div by -1, truncated", [](const Tensor& x) { return div(x, -1.0, "trunc"); }, "-0 0"},
    // folds: a sum begins with 0, but one element may be taken as it is, as PyTorch's inductor does
    {"sum",
     [](const Tensor& x) {
       return sum(cat({x, x}, 0));
     },
     "0 0"},
    {"mean",
     [](const Tensor& x) {
       return mean(cat({x, x}, 0));
     },
     "0 0"},
    {"prod", [](const Tensor& x) { return prod(x); }, "0 -0"},
    {"cumsum",
     [](const Tensor& x) {
       return cumsum(cat({x, x}, 0), 0);
     },
     "0 0"},
};

/// Of the two operands 0 -0, -0 0, 0 0, -0 -0, 0 1, -0 1, 0 -1, -0 -1, 1 -0, -1 0, 1 0, -1 -0.
struct BinaryRow {
  const char* name;
  Tensor (*op)(const Tensor& x, const Tensor& y);
  const char* results;
};

constexpr std::pair<double, double> operands[] = {
    {0.0, -0.0}, {-0.0, 0.0},  {0.0, 0.0},  {-0.0, -0.0}, {0.0, 1.0}, {-0.0, 1.0},
    {0.0, -1.0}, {-0.0, -1.0}, {1.0, -0.0}, {-1.0, 0.0},  {1.0, 0.0}, {-1.0, -0.0}};

const BinaryRow binary_rows[] = {
    {"maximum", [](const Tensor& x, const Tensor& y) { return maximum(x, y); },
     "? ? 0 -0 1 1 0 -0 1 0 1 -0"},
    {"minimum", [](const Tensor& x, const Tensor& y) { return minimum(x, y); },
     "? ? 0 -0 0 -0 -1 -1 -0 -1 0 -1"},
    {"fmax", [](const Tensor& x, const Tensor& y) { return fmax(x, y); },
     "? ? 0 -0 1 1 0 -0 1 0 1 -0"},
    {"fmin", [](const Tensor& x, const Tensor& y) { return fmin(x, y); },
     "? ? 0 -0 0 -0 -1 -1 -0 -1 0 -1"},
    {"clamp", [](const Tensor& x, const Tensor& y) { return clamp(x, y, y); },
     "? ? 0 -0 1 1 -1 -1 -0 0 0 -0"},
    {"fmod", [](const Tensor& x, const Tensor& y) { return fmod(x, y); },
     "nan nan nan nan 0 -0 0 -0 nan nan nan nan"},
    {"remainder", [](const Tensor& x, const Tensor& y) { return remainder(x, y); },
     "nan nan nan nan 0 -0 0 -0 nan nan nan nan"},
    {"copysign", [](const Tensor& x, const Tensor& y) { return copysign(x, y); },
     "-0 0 0 -0 0 0 -0 -0 -1 1 1 -1"},
    {"atan2", [](const Tensor& x, const Tensor& y) { return atan2(x, y); },
     "3.14159 -0 0 -3.14159 0 -0 3.14159 -3.14159 1.5708 -1.5708 1.5708 -1.5708"},
    {"hypot", [](const Tensor& x, const Tensor& y) { return hypot(x, y); },
     "0 0 0 0 1 1 1 1 1 1 1 1"},
    {"add", [](const Tensor& x, const Tensor& y) { return x + y; }, "0 0 0 -0 1 1 -1 -1 1 -1 1 -1"},
    {"sub", [](const Tensor& x, const Tensor& y) { return x - y; }, "0 -0 0 0 -1 -1 1 1 1 -1 1 -1"},
    {"mul", [](const Tensor& x, const Tensor& y) { return x * y; },
     "-0 -0 0 0 0 -0 -0 0 -0 -0 0 0"},
    {"div", [](const Tensor& x, const Tensor& y) { return x / y; },
     "nan nan nan nan 0 -0 -0 0 -inf -inf inf inf"},
    {"div, rounded down", [](const Tensor& x, const Tensor& y) { return div(x, y, "floor"); },
     "nan nan nan nan 0 -0 -0 0 -inf -inf inf inf"},
    {"pow", [](const Tensor& x, const Tensor& y) { return pow(x, y); },
     "1 1 1 1 0 -0 inf -inf 1 1 1 1"},
    {"where", [](const Tensor& x, const Tensor& y) { return where(x.lt(y), x, y); },
     "-0 0 0 -0 0 -0 -1 -1 -0 -1 0 -1"},
    {"lerp", [](const Tensor& x, const Tensor& y) { return lerp(x, y, 0.5); },
     "0 0 0 -0 0.5 0.5 -0.5 -0.5 0.5 -0.5 0.5 -0.5"},
    {"addcmul", [](const Tensor& x, const Tensor& y) { return addcmul(x, y, y, 0.0); },
     "0 0 0 0 0 0 0 0 1 -1 1 -1"},
    {"xlogy", [](const Tensor& x, const Tensor& y) { return xlogy(x, y); },
     "0 0 0 0 0 0 0 0 -inf inf -inf inf"},
    {"heaviside", [](const Tensor& x, const Tensor& y) { return heaviside(x, y); },
     "-0 0 0 -0 1 1 -1 -1 1 0 1 0"},
};

std::vector<std::string> words_of(const char* text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

/// Equal but for the rounding of bf16, and the same zero.
bool is_expected(double found, const std::string& expected) {
  if (expected == "?") return true;
  double number = std::stod(expected);
  if (std::isnan(number)) return std::isnan(found);
  bool near = found == number || std::abs(found - number) <= 0.01 * std::abs(number);
  return near && std::signbit(found) == std::signbit(number);
}

void expect_values(const Tensor& found, const std::string& expected, const std::string& what) {
  for (double v : found.to(Dtype::f64).to_vector<double>())
    if (!is_expected(v, expected)) {
      ADD_FAILURE() << what << " gives " << (v == 0 && std::signbit(v) ? "-0" : std::to_string(v))
                    << ", PyTorch " << expected;
      return;
    }
}

using Results = std::vector<Tensor>;

Results all_unary(const Tensor& x) {
  Results out;
  for (const UnaryRow& row : unary_rows) out.push_back(row.op(x));
  return out;
}

Results all_binary(const Tensor& x, const Tensor& y) {
  Results out;
  for (const BinaryRow& row : binary_rows) out.push_back(row.op(x, y));
  return out;
}

/// One number, and some that fill vectors and leave a rest; an odd number, for products.
constexpr int64_t lengths[] = {1, 37};

template <class F>
void expect_unary(F f, Dtype dtype, const std::string& where) {
  for (int64_t n : lengths)
    for (size_t k : {0, 1}) {
      double zero = k ? -0.0 : 0.0;
      Results found = f(full({n}, zero, dtype));
      for (size_t r = 0; r < found.size(); ++r)
        expect_values(found[r], words_of(unary_rows[r].results)[k],
                      where + ": " + unary_rows[r].name + " of " + (k ? "-0" : "0"));
    }
}

template <class F>
void expect_binary(F f, Dtype dtype, const std::string& where) {
  for (int64_t n : lengths)
    for (size_t k = 0; k < std::size(operands); ++k) {
      auto [a, b] = operands[k];
      Results found = f(full({n}, a, dtype), full({n}, b, dtype));
      for (size_t r = 0; r < found.size(); ++r)
        expect_values(found[r], words_of(binary_rows[r].results)[k],
                      where + ": " + binary_rows[r].name + ", operands " + std::to_string(k));
    }
}

class SignedZeros : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    set_plugin_search({}, {});  // the folder beside the program
    std::vector<std::string> known = list_backends({});
    if (std::ranges::find(known, GetParam()) == known.end())
      GTEST_SKIP() << "this build has no " << GetParam();
  }
};

TEST_P(SignedZeros, AreThoseOfPyTorch) {
  for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16}) {
    std::string where = std::string(GetParam()) + ", " + to_text(dtype);
    expect_unary(compile(all_unary, {.backend = GetParam()}), dtype, where);
    expect_binary(compile(all_binary, {.backend = GetParam()}), dtype, where);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, SignedZeros,
                         testing::Values("eager", "aot_eager", "inductor", "ts", "nnc"));

TEST(SignedZerosOfPlainOps, AreThoseOfPyTorch) {
  for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16}) {
    expect_unary(all_unary, dtype, "plain, " + to_text(dtype));
    expect_binary(all_binary, dtype, "plain, " + to_text(dtype));
  }
}

}  // namespace
}  // namespace tenon
