// Ops whose loops are vector code of their own: it gives what a plain loop over elements gives, for
// lengths around those of registers and blocks.
#include "core/random.h"

#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <vector>

namespace tenon {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
const float nan = std::nanf("");

template <class T = float>
std::vector<T> elements_of(const Tensor& t) {
  return t.contiguous().to_vector<T>();
}

Tensor within(const Tensor& a, const Tensor& b, double relative, double absolute) {
  return (a - b).abs().le(b.abs() * relative + absolute).logical_or(a.eq(b));
}
bool are_close(const Tensor& a, const Tensor& b, double relative, double absolute,
               bool nan_is_nan = false) {
  Tensor fits = within(a, b, relative, absolute);
  if (nan_is_nan) fits = fits.logical_or(a.isnan().logical_and(b.isnan()));
  return fits.all().item<bool>();
}
double number_in(const Tensor& t) { return t.to(Dtype::f64).item<double>(); }

// ---- random numbers

double uniform_number(RngState at, int64_t i, int64_t which) {
  uint64_t block = at.offset + 2 * static_cast<uint64_t>(i / 4);
  auto a = philox(at.seed, block), b = philox(at.seed, block + 1);
  return uniform_double(a[static_cast<size_t>(which)], b[static_cast<size_t>(which)]);
}

TEST(VectorForms, UniformNumbersAreThoseOfTheirBlocks) {
  for (int64_t n : {1, 3, 4, 5, 63, 64, 65, 1023, 1024, 1025, 5000}) {
    manual_seed(static_cast<uint64_t>(n));
    rand({3});
    RngState at = rng_state();
    std::vector<double> found = elements_of<double>(rand({n}, Dtype::f64));
    for (int64_t i = 0; i < n; ++i)
      ASSERT_EQ(found[static_cast<size_t>(i)], uniform_number(at, i, i % 4)) << i << " of " << n;
  }
}

// Box and Muller by libm, rounded once.
TEST(VectorForms, NormalNumbersAreThoseOfLibm) {
  for (int64_t n : {1, 2, 7, 64, 1023, 1025, 100000}) {
    manual_seed(static_cast<uint64_t>(n));
    RngState at = rng_state();
    std::vector<float> found = elements_of(randn({n}));
    for (int64_t i = 0; i < n; ++i) {
      int64_t pair = i & 2;
      double radius = std::sqrt(-2 * std::log1p(-uniform_number(at, i, pair)));
      double angle = 2 * std::numbers::pi * uniform_number(at, i, pair + 1);
      double expected = radius * (i & 1 ? std::sin(angle) : std::cos(angle));
      ASSERT_EQ(found[static_cast<size_t>(i)], static_cast<float>(expected)) << i << " of " << n;
    }
  }
}

TEST(VectorForms, PermutationsHoldEachNumberOnce) {
  for (int64_t n : {0, 1, 2, 5, 1023, 1024, 1025, 3000}) {
    manual_seed(7);
    std::vector<int64_t> found = elements_of<int64_t>(randperm(n));
    std::vector<bool> seen(static_cast<size_t>(n));
    for (int64_t i : found) seen.at(static_cast<size_t>(i)) = true;
    EXPECT_EQ(std::count(seen.begin(), seen.end(), true), n);
  }
}

// ---- copies

TEST(VectorForms, FlippedAndRolledElementsKeepTheirValues) {
  for (Dtype dtype : {Dtype::u8, Dtype::bf16, Dtype::f32, Dtype::f64})
    for (int64_t n : {1, 2, 15, 16, 17, 100, 1500}) {
      Tensor x = arange(0, 3 * n).reshape({3, n}).remainder(200).to(dtype);
      Tensor back = arange(n - 1, -1, -1), down = tensor({int64_t{2}, int64_t{1}, int64_t{0}});
      EXPECT_TRUE(equal(flip(x, {1}), x.index_select(1, back))) << dtype << " " << n;
      EXPECT_TRUE(equal(flip(x, {0, 1}), x.index_select(0, down).index_select(1, back)));
      EXPECT_TRUE(equal(flip(x.t(), {0}), x.t().index_select(0, back)));
      Tensor shifted = (arange(0, n) - 3).remainder(n);
      EXPECT_TRUE(equal(roll(x, {3}, {1}), x.index_select(1, shifted))) << dtype << " " << n;
    }
}

TEST(VectorForms, TransposedCopiesOfAllWidths) {
  for (Dtype dtype : {Dtype::u8, Dtype::bf16, Dtype::f32, Dtype::f64})
    for (int64_t n : {1, 2, 3, 31, 33, 70}) {
      Tensor x = arange(0, n * 37).remainder(250).to(dtype).reshape({n, 37});
      std::vector<double> found = elements_of<double>(x.t().contiguous().to(Dtype::f64));
      for (int64_t i = 0; i < n * 37; ++i)
        ASSERT_EQ(found[static_cast<size_t>(i % 37 * n + i / 37)], static_cast<double>(i % 250));
    }
}

// ---- functions

struct Function {
  const char* name;
  std::function<Tensor(const Tensor&)> op;
  double (*exact)(double);
  double low, high;
};

// A float for which the exact value is `exact` is within `most` units in the last place.
double units_apart(float found, double exact) {
  auto rounded = static_cast<float>(exact);
  if (found == rounded || (std::isnan(found) && std::isnan(rounded))) return 0;
  if (!std::isfinite(found) || !std::isfinite(rounded)) return inf;
  int exponent;
  std::frexp(exact, &exponent);
  return std::fabs(found - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

TEST(VectorForms, FunctionsAreWithinAUnit) {
  const Function functions[] = {
      {"erfc", [](const Tensor& x) { return x.erfc(); }, std::erfc, -5, 10.5},
      {"lgamma", [](const Tensor& x) { return x.lgamma(); }, std::lgamma, 0, 40},
      {"lgamma near its zeros", [](const Tensor& x) { return x.lgamma(); }, std::lgamma, 0.9, 2.1},
      {"lgamma below 0", [](const Tensor& x) { return x.lgamma(); }, std::lgamma, -1.9, 0},
      {"erf of erfinv",
       [](const Tensor& x) { return x.erfinv().to(Dtype::f64).erf().to(Dtype::f32); },
       [](double x) { return x; }, -0.9, 0.9},
  };
  for (const Function& f : functions)
    for (int64_t n : {1, 17, 600}) {
      Tensor x = linspace(f.low, f.high, n + 2).slice(0, 1, n + 1);
      std::vector<float> given = elements_of(x), found = elements_of(f.op(x));
      for (size_t i = 0; i < given.size(); ++i)
        EXPECT_LE(units_apart(found[i], f.exact(given[i])), 1.0) << f.name << " of " << given[i];
    }
}

// digamma(x + 1) = digamma(x) + 1 / x, digamma(1 - x) = digamma(x) + pi / tan(pi x).
TEST(VectorForms, DigammaFollowsItsEquations) {
  Tensor x = linspace(0.05, 30, 500), d = x.digamma().to(Dtype::f64);
  Tensor next = (x + 1).digamma().to(Dtype::f64), exact = x.to(Dtype::f64);
  EXPECT_TRUE(are_close(next, d + exact.reciprocal(), 1e-6, 1e-6));
  Tensor fraction = linspace(0.1, 0.9, 50), wide = fraction.to(Dtype::f64);
  Tensor mirrored = (1 - fraction).digamma().to(Dtype::f64);
  EXPECT_TRUE(are_close(mirrored,
                        fraction.digamma().to(Dtype::f64) +
                            (wide * std::numbers::pi).tan().reciprocal() * std::numbers::pi,
                        1e-5, 1e-5));
}

TEST(VectorForms, LimitsOfFunctions) {
  auto one = [](const std::function<Tensor(const Tensor&)>& f, float x) {
    float alone = number_in(f(tensor({x}))), in_block = elements_of(f(full({40}, x)))[33];
    EXPECT_TRUE(alone == in_block || (std::isnan(alone) && std::isnan(in_block))) << x;
    return alone;
  };
  auto lgamma = [](const Tensor& x) { return x.lgamma(); };
  auto digamma = [](const Tensor& x) { return x.digamma(); };
  auto erfinv = [](const Tensor& x) { return x.erfinv(); };
  for (float pole : {0.0f, -0.0f, -1.0f, -7.0f, inf, -inf}) EXPECT_EQ(one(lgamma, pole), inf);
  EXPECT_EQ(one(digamma, 0.0f), -inf);
  EXPECT_EQ(one(digamma, -0.0f), inf);
  EXPECT_EQ(one(digamma, inf), inf);
  for (float x : {-1.0f, -4.0f, nan}) EXPECT_TRUE(std::isnan(one(digamma, x)));
  EXPECT_EQ(one(erfinv, 1.0f), inf);
  EXPECT_EQ(one(erfinv, -1.0f), -inf);
  for (float x : {1.5f, -inf, nan}) EXPECT_TRUE(std::isnan(one(erfinv, x)));
  EXPECT_TRUE(std::isnan(one(lgamma, nan)));
}

TEST(VectorForms, AtanOfTwoIsThatOfLibm) {
  const float given[] = {0.0f, -0.0f, 1.0f, -1.0f, 3e-40f, 2.5f, -1e30f, inf, -inf, nan};
  for (float y : given)
    for (float x : given)
      for (int64_t n : {1, 40}) {
        float found = elements_of(atan2(full({n}, y), tensor({x}))).back();
        float expected = std::atan2(y, x);
        EXPECT_LE(units_apart(found, std::atan2(double{y}, double{x})), 1.0) << y << ", " << x;
        EXPECT_TRUE(std::isnan(expected) || std::signbit(found) == std::signbit(expected))
            << y << ", " << x;
      }
}

TEST(VectorForms, DoublesAreWithinTwoUnits) {
  auto check = [](const char* name, const Tensor& found, const Tensor& x,
                  long double (*exact)(long double)) {
    std::vector<double> given = x.to_vector<double>(), results = found.to_vector<double>();
    for (size_t i = 0; i < given.size(); ++i) {
      auto e = static_cast<double>(exact(given[i]));
      bool same = results[i] == e || (std::isnan(e) && std::isnan(results[i]));
      EXPECT_TRUE(same || std::fabs(results[i] - e) <= 4.5e-16 * std::fabs(e) + 5e-324)
          << name << " of " << given[i] << ": " << results[i];
    }
  };
  const double wide_inf = std::numeric_limits<double>::infinity();
  Tensor special = tensor({0.0, -0.0, wide_inf, -wide_inf, std::nan(""), 709.7, 709.9, -745.0,
                           -746.0, 5e-324, 1e-310, 1e308, 1.0, 0.54999, 0.55001});
  Tensor x = cat({special, linspace(-745, 709, 501, Dtype::f64), linspace(-1, 2, 77, Dtype::f64)});
  check("exp", x.exp(), x, expl);
  check("log", x.log(), x, logl);
  check("tanh", x.tanh(), x, tanhl);
  check("sigmoid", x.sigmoid(), x, [](long double v) { return 1 / (1 + expl(-v)); });
}

// ---- folds

TEST(VectorForms, FoldsOfAllLengths) {
  manual_seed(3);
  for (int64_t n : {1, 2, 7, 8, 31, 32, 33, 63, 64, 511, 512, 513, 1500}) {
    Tensor x = randn({3, n}), i = randint(-9, 9, {3, n});
    Tensor wide = x.to(Dtype::f64);
    double squares = 0, sizes = 0, product = 1;
    int64_t sum = 0, largest = -100, smallest = 100, factor = 1;
    for (double v : elements_of<double>(wide.select(0, 1)))
      squares += v * v, sizes += std::fabs(v), product *= v;
    for (int64_t v : elements_of<int64_t>(i.select(0, 1))) {
      sum += v, largest = std::max(largest, v), smallest = std::min(smallest, v);
      factor = static_cast<int64_t>(static_cast<uint64_t>(factor) * static_cast<uint64_t>(v | 1));
    }
    auto second = [](const Tensor& t) { return number_in(t.select(0, 1)); };
    EXPECT_NEAR(second(x.norm(2, {1})) / std::sqrt(squares), 1, 1e-7) << n;
    EXPECT_NEAR(second(x.norm(1, {1})) / sizes, 1, 1e-7) << n;
    EXPECT_NEAR(second(x.prod(1)), product, 1e-7 * std::fabs(product) + 1e-45) << n;
    EXPECT_NEAR(second(wide.prod(1)), product, 1e-14 * std::fabs(product)) << n;
    for (Dtype dtype : {Dtype::i64, Dtype::i32, Dtype::i16, Dtype::i8}) {
      Tensor t = i.to(dtype);
      EXPECT_EQ(second(t.sum(1)), static_cast<double>(sum)) << dtype << " " << n;
      EXPECT_EQ(second(t.amax({1})), static_cast<double>(largest)) << dtype << " " << n;
      EXPECT_EQ(second(t.amin({1})), static_cast<double>(smallest)) << dtype << " " << n;
      EXPECT_EQ(second(t.bitwise_or(1).prod(1)), static_cast<double>(factor)) << dtype << " " << n;
    }
    x.select(1, n / 2).fill_(nan);
    std::vector<double> rest = elements_of<double>(x.select(0, 1).to(Dtype::f64));
    double without = 0;
    for (double v : rest) without += std::isnan(v) ? 0 : v;
    EXPECT_NEAR(second(x.nansum(1)), without, 1e-5) << n;
  }
}

TEST(VectorForms, DistancesAreThoseOfTheDifferences) {
  manual_seed(4);
  for (Dtype dtype : {Dtype::f32, Dtype::f64})
    for (int64_t width : {1, 3, 64, 300})
      for (int64_t n : {1, 5, 16, 70}) {
        Tensor a = randn({2, 4, width}, dtype), b = randn({2, n, width}, dtype);
        Tensor apart = (a.unsqueeze(2) - b.unsqueeze(1)).to(Dtype::f64);
        double most = dtype == Dtype::f64 ? 1e-13 : 1e-5;
        for (double p : {1.0, 2.0, 3.0}) {
          Tensor expected = apart.norm(p, {-1});
          EXPECT_TRUE(are_close(cdist(a, b, p).to(Dtype::f64), expected, most, most))
              << p << " " << width << " " << n;
        }
        Tensor self = b.select(0, 0), pairs = triu_indices(n, n, 1);
        Tensor all = cdist(self, self);
        EXPECT_TRUE(are_close(pdist(self), all.index({pairs.select(0, 0), pairs.select(0, 1)}),
                              most, most));
      }
}

TEST(VectorForms, GradientsOfDistances) {
  manual_seed(5);
  Tensor a = randn({6, 9}), b = randn({20, 9}), weight = randn({6, 20});
  b.select(0, 3).copy_(a.select(0, 2));  // a distance of 0 has no direction
  a.requires_grad_(), b.requires_grad_();
  (cdist(a, b) * weight).sum().backward();
  Tensor apart = a.detach().unsqueeze(1) - b.detach().unsqueeze(0);
  Tensor length = apart.norm(2, {-1});
  Tensor slopes = apart * (weight / length).masked_fill(length.eq(0), 0).unsqueeze(-1);
  EXPECT_TRUE(are_close(a.grad(), slopes.sum({1}), 1e-4, 1e-5));
  EXPECT_TRUE(are_close(b.grad(), -slopes.sum({0}), 1e-4, 1e-5));
}

// ---- rows of neighbours

TEST(VectorForms, LargestOfWindowsAndTheirPlaces) {
  manual_seed(6);
  for (int64_t width : {4, 5, 17, 63, 64, 65, 140})
    for (int64_t stride : {1, 2, 3}) {
      Tensor x = randint(0, 50, {2, 7, width}).to(Dtype::f32);
      x.select(2, width / 2).select(1, 3).fill_(nan);
      auto [found, places] = max_pool2d_with_indices(x, {3, 3}, {stride, stride}, {1, 1});
      auto [expected, expected_places] =
          max_pool2d_with_indices(x.to(Dtype::f64), {3, 3}, {stride, stride}, {1, 1});
      EXPECT_TRUE(equal(places, expected_places)) << width << " " << stride;
      EXPECT_TRUE(are_close(found.to(Dtype::f64), expected, 0, 0, true)) << width << " " << stride;
    }
}

TEST(VectorForms, BatchesOfRowsAreNormalised) {
  manual_seed(8);
  for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16})
    for (int64_t channels : {1, 3, 64, 513, 1100})
      for (int64_t batch : {8, 31, 33, 70}) {
        Tensor x = (randn({batch, channels}) * 3 + 5).to(dtype), wide = x.to(Dtype::f64);
        Tensor y = batch_norm(x, Tensor(), Tensor(), Tensor(), Tensor(), true, 0.1, 1e-5, false);
        Tensor mean = wide.mean({0}, true), var = wide.var({0}, false, true);
        Tensor expected = (wide - mean) * (var + 1e-5).rsqrt();
        double most = dtype == Dtype::f64 ? 1e-12 : dtype == Dtype::f32 ? 5e-5 : 2e-2;
        EXPECT_TRUE(are_close(y.to(Dtype::f64), expected, most, most)) << channels << " " << batch;
      }
}

TEST(VectorForms, GradientsOfSoftmaxRows) {
  manual_seed(9);
  for (int64_t n : {1, 5, 16, 100, 700}) {
    Tensor x = randn({3, n}), g = randn({3, n});
    Tensor y = x.softmax(1), log_y = x.log_softmax(1);
    Tensor expected = y * (g - (g * y).sum({1}, true));
    EXPECT_TRUE(are_close(_softmax_backward_data(g, y, 1, Dtype::f32), expected, 1e-5, 1e-6)) << n;
    Tensor of_log = g - log_y.exp() * g.sum({1}, true);
    EXPECT_TRUE(are_close(_log_softmax_backward_data(g, log_y, 1, Dtype::f32), of_log, 1e-5, 1e-5));
  }
}

// The way that keeps all products serves second derivatives.
TEST(VectorForms, GradientOfCumulativeProductsWithZeros) {
  manual_seed(10);
  Tensor x = randn({5, 9});
  x.select(0, 1).select(0, 4).fill_(0);
  x.select(0, 2).select(0, 0).fill_(0);
  x.select(0, 3).slice(0, 2, 7).fill_(0);
  x.select(0, 4).fill_(0);
  x.requires_grad_();
  Tensor weight = randn({5, 9});
  auto loss = [&] { return (x.cumprod(1) * weight).sum(); };
  Tensor linear = autograd::grad({loss()}, {x})[0];
  Tensor squared = autograd::grad({loss()}, {x}, {.create_graph = true})[0];
  EXPECT_TRUE(are_close(linear, squared.detach(), 1e-4, 1e-5));
}

}  // namespace
}  // namespace tenon
