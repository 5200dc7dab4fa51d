// Chains of cheap ops give on nnc the bits that they give eagerly, whatever the number of elements:
// whole groups of vectors, what is left behind them, and blocks shorter than one.
#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace tenon {
namespace {

struct Chain {
  const char* name;
  Tensor (*body)(const Tensor& x, const Tensor& y);
};

const Chain exact[] = {
    {"sums, products and relu",
     [](const Tensor& x, const Tensor& y) {
       Tensor t = relu(x * 1.5 + y), u = t * (y * 0.7 - x);
       return relu(x - u) * 0.5 + u;
     }},
    {"a comparison and what it chooses",
     [](const Tensor& x, const Tensor& y) {
       Tensor t = where(x.gt(y), x * 2.0, y + 1.0);
       return clamp(t * t - x, -3.0, 3.0) + t;
     }},
    {"choices of what is compared, from either side",
     [](const Tensor& x, const Tensor& y) {
       Tensor t = x * y, a = where(t.lt(0.5), t, y), b = where(a.ge(x), x - 1.0, a);
       Tensor c = where(y.eq(b), b, a + b);
       return where(c.le(0.0), 1.0 - c, c / (t.abs() + 1.0));
     }},
    {"least and greatest, roots and quotients",
     [](const Tensor& x, const Tensor& y) {
       Tensor t = (x * x).sqrt(), v = maximum(t - y, x), w = minimum(y, -v);
       return 1.0 / (w.abs() + 0.5) - v * v;
     }},
    {"functions by the host's loops",
     [](const Tensor& x, const Tensor& y) {
       Tensor angles = sin(x * 3.0) * cos(y) + atan2(x, y) - asin(clamp(y, -1, 1));
       Tensor rests = fmod(x, 0.7) + remainder(y, 0.3), powers = pow(x.abs(), 1.7) + sinh(y);
       return (angles + rests) * lgamma(y.abs() + 1.0) + digamma(y.abs() + 0.1) * erfc(x) + powers;
     }},
    {"a whole number in the middle",
     [](const Tensor& x, const Tensor& y) {
       Tensor t = x * 2.0 + y;
       return t.nan_to_num().clamp(-9, 9).to(Dtype::i32).to(Dtype::f32) * t - x * t + 1.5;
     }},
};

// Numbers without a limit, and zeros of both signs, where there is room.
void put_limits(const Tensor& t) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  const float limits[] = {nan, infinity, -infinity, 0.0f, -0.0f, 1e-40f, -1e-40f};
  auto* data = t.data_ptr<float>();
  for (int64_t i = 0; i < t.numel(); i += 5) data[i] = limits[i / 5 % 7];
}

bool are_same_bits(const Tensor& a, const Tensor& b) {
  const auto *p = a.data_ptr<float>(), *q = b.data_ptr<float>();
  for (int64_t i = 0; i < a.numel(); ++i)
    if (std::memcmp(p + i, q + i, sizeof(float)) != 0 && !(std::isnan(p[i]) && std::isnan(q[i])))
      return false;
  return a.numel() == b.numel();
}

class StraightCode : public testing::TestWithParam<std::vector<int64_t>> {};

TEST_P(StraightCode, GivesTheBitsOfEagerOps) {
  manual_seed(7);
  Tensor x = randn(GetParam()), y = randn(GetParam()), row = randn({GetParam().back()});
  put_limits(x);
  for (const Tensor& other : {y, row}) {
    for (const Chain& chain : exact) {
      auto compiled = compile(chain.body, {.backend = "nnc"});
      Tensor expected = chain.body(x, other).contiguous();
      EXPECT_TRUE(are_same_bits(compiled(x, other).contiguous(), expected)) << chain.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, StraightCode,
                         testing::Values(std::vector<int64_t>{1}, std::vector<int64_t>{31},
                                         std::vector<int64_t>{127}, std::vector<int64_t>{128},
                                         std::vector<int64_t>{129}, std::vector<int64_t>{1023},
                                         std::vector<int64_t>{5000}, std::vector<int64_t>{70001},
                                         std::vector<int64_t>{33, 65}, std::vector<int64_t>{7, 999},
                                         std::vector<int64_t>{900, 7}));

TEST(StraightCodeOfFunctions, IsAsExactAsTheFunctions) {
  auto body = [](const Tensor& x) { return tanh(x * 0.5) * sigmoid(x) + exp(x * 0.1); };
  auto compiled = compile(body, {.backend = "nnc"});
  Tensor x = linspace(-12, 12, 40001), exact_sum = body(x.to(Dtype::f64));
  Tensor error = (compiled(x).to(Dtype::f64) - exact_sum).abs() / (exact_sum.abs() + 0.01);
  EXPECT_LT(error.max().item<double>(), 5e-7);
}

/// In units of the last place of what is exact, which is as wide where numbers are subnormal.
double most_ulps(const Tensor& found, const Tensor& exact) {
  auto* f = found.data_ptr<float>();
  auto* e = exact.data_ptr<double>();
  double most = 0;
  for (int64_t i = 0; i < found.numel(); ++i) {
    EXPECT_EQ(std::isnan(f[i]), std::isnan(e[i])) << i;
    if (std::isnan(e[i])) continue;
    int exponent = std::max(std::ilogb(std::max(std::abs(e[i]), 1e-300)), -126);
    most = std::max(most, std::abs(f[i] - e[i]) / std::ldexp(1.0, exponent - 23));
  }
  return most;
}

/// Floats from the least subnormal one to infinity, of both signs, and one that is not a number.
Tensor all_magnitudes(int64_t n) {
  Tensor out = empty({2 * n + 1});
  auto* x = out.data_ptr<float>();
  for (int64_t i = 0; i < n; ++i) {
    auto bits = static_cast<uint32_t>(static_cast<uint64_t>(i) * 0x7f800000u / (n - 1));
    x[2 * i] = std::bit_cast<float>(bits), x[2 * i + 1] = -x[2 * i];
  }
  x[2 * n] = std::nanf("");
  return out;
}

TEST(StraightCodeOfFunctions, KeepsTheLastPlacesOfAllMagnitudes) {
  Tensor x = all_magnitudes(60001);
  auto of_sigmoid = [](const Tensor& t) { return sigmoid(t) * 1.0; };
  auto of_tanh = [](const Tensor& t) { return tanh(t) * 1.0; };
  auto exact = x.to(Dtype::f64);
  EXPECT_LT(most_ulps(compile(of_sigmoid, {.backend = "nnc"})(x), sigmoid(exact)), 3);
  EXPECT_LT(most_ulps(compile(of_tanh, {.backend = "nnc"})(x), tanh(exact)), 3);
}

TEST(StraightCodeOfFunctions, GivesBitsThatDoNotDependOnNeighbours) {
  auto body = [](const Tensor& t) { return sigmoid(t) * 1.0; };
  auto compiled = compile(body, {.backend = "nnc"});
  Tensor x = linspace(-80, 80, 4096), far = x.clone();
  for (int64_t i = 0; i < 4096; i += 100) far.data_ptr<float>()[i] = i % 200 ? -95 : INFINITY;
  Tensor alone = compiled(x), among_far = compiled(far);
  auto *a = alone.data_ptr<float>(), *b = among_far.data_ptr<float>();
  for (int64_t i = 0; i < 4096; ++i) {
    if (i % 100 == 0) continue;
    ASSERT_EQ(a[i], b[i]) << i;
  }
}

TEST(StraightCodeInPlace, ReadsAnInputBeforeItIsWritten) {
  auto body = [](const Tensor& x, const Tensor& y) {
    Tensor t = x * 2.0 + y;
    x.copy_(relu(t) - x * y);
    return t + x;
  };
  auto compiled = compile(body, {.backend = "nnc"});
  Tensor x = randn({3000}), y = randn({3000}), z = x.clone();
  Tensor expected = body(x, y), found = compiled(z, y);
  EXPECT_TRUE(are_same_bits(found, expected));
  EXPECT_TRUE(are_same_bits(z, x));
}

}  // namespace
}  // namespace tenon
