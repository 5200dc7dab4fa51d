// Ops with a faster form for common arguments, large inputs or neighbouring elements: it gives what
// the plain form gives.
#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tenon {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
const float nan = std::nanf("");

bool same(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

std::vector<float> floats_of(const Tensor& t) {
  Tensor flat = t.contiguous();
  const float* x = flat.data_ptr<float>();
  return {x, x + flat.numel()};
}

// As PyTorch, which takes a root for the power 1/2 of minus infinity too.
TEST(SimplePowers, AreProductsRootsAndQuotients) {
  std::vector<float> numbers{0.0f, -0.0f, 1.5f, -1.5f, 3e30f, -3e-30f, 1e-42f, inf, -inf, nan};
  Tensor x = tensor(numbers);
  std::pair<double, float (*)(float)> rows[] = {
      {2, [](float v) { return v * v; }},          {3, [](float v) { return v * v * v; }},
      {0.5, [](float v) { return std::sqrt(v); }}, {-0.5, [](float v) { return 1 / std::sqrt(v); }},
      {-1, [](float v) { return 1 / v; }},         {-2, [](float v) { return 1 / (v * v); }},
  };
  for (auto [exponent, expected] : rows) {
    std::vector<float> found = floats_of(x.pow(exponent));
    for (size_t i = 0; i < numbers.size(); ++i)
      EXPECT_TRUE(same(found[i], expected(numbers[i])))
          << numbers[i] << " to " << exponent << ": " << found[i];
  }
  EXPECT_TRUE(equal(tensor({2, -3}).pow(2), tensor({4, 9})));
  EXPECT_TRUE(equal(tensor({2, -3}).pow(3), tensor({8, -27})));
}

// Exponents take turns, so a plan that keeps one must not serve another.
TEST(SimplePowers, TakeTurns) {
  Tensor x = tensor({2.0f, 3.0f});
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(equal(x.pow(2), tensor({4.0f, 9.0f})));
    EXPECT_TRUE(equal(x.pow(3), tensor({8.0f, 27.0f})));
    EXPECT_TRUE(equal(x.pow(4), tensor({16.0f, 81.0f})));
    EXPECT_TRUE(equal(x.pow(1), x));
    EXPECT_TRUE(equal(x.pow(0), tensor({1.0f, 1.0f})));
    EXPECT_TRUE(equal(x.pow(-1), tensor({0.5f, 1.0f / 3})));
  }
}

std::vector<float> dividends() {
  std::vector<float> out{0.0f, -0.0f, 1.0f, -1.0f, 7.0f, -7.0f, 0x1p22f, -0x1.fffffep21f, 5.5f};
  for (float x : {0.1f, 0.3f, 1e-40f, 3e38f, 1e10f, 123.456f, 0x1.fffffep0f, inf, nan})
    out.push_back(x), out.push_back(-x);
  return out;
}

// A block of common numbers takes the fast form, one with infinity beside them the plain one.
TEST(Remainders, InBlocksAreThoseOfOneElement) {
  std::vector<float> some = dividends();
  using F = Tensor (*)(const Tensor&, const Tensor&);
  F functions[] = {[](const Tensor& a, const Tensor& b) { return fmod(a, b); },
                   [](const Tensor& a, const Tensor& b) { return remainder(a, b); },
                   [](const Tensor& a, const Tensor& b) { return floor_divide(a, b); }};
  for (float a : some)
    for (float b : some) {
      Tensor x = tensor({a}), y = tensor({b}), infinite = tensor({inf});
      Tensor many = x.expand({65}).contiguous(), divisors = y.expand({65}).contiguous();
      for (F f : functions) {
        std::vector<float> block = floats_of(f(many, divisors));
        std::vector<float> plain = floats_of(f(cat({x, infinite}, 0), cat({y, infinite}, 0)));
        EXPECT_TRUE(same(block[0], plain[0])) << a << ", " << b;
        EXPECT_TRUE(same(block[64], plain[0])) << a << ", " << b;
      }
      EXPECT_TRUE(same(floats_of(fmod(many, divisors))[0], std::fmod(a, b))) << a << ", " << b;
    }
}

TEST(Remainders, OfRandomNumbersAreExact) {
  manual_seed(3);
  Tensor a = randn({4096}) * 1000, b = randn({4096});
  std::vector<float> x = floats_of(a), y = floats_of(b), found = floats_of(fmod(a, b));
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_TRUE(same(found[i], std::fmod(x[i], y[i]))) << x[i] << ", " << y[i];
}

// Neighbours are folded in parts, elements that lie apart one by one.
TEST(Folds, OfNeighboursAreThoseOfElementsApart) {
  manual_seed(5);
  for (int64_t n : {1, 7, 8, 1023, 1024, 1025, 3000}) {
    Tensor rows = randn({3, n}, Dtype::f64), apart = rows.t().contiguous().t();
    auto near = [&](const Tensor& a, const Tensor& b, double tolerance = 1e-12) {
      Tensor off = (a - b).abs() - b.abs() * tolerance;
      EXPECT_LE(off.max().item<double>(), 1e-14) << "n " << n;
    };
    for (double p : {1.0, 2.0, 3.0}) near(rows.norm(p, {1}), apart.norm(p, {1}));
    near(rows.var({1}), apart.var({1}));
    near((rows + 1e6).var({1}), (apart + 1e6).var({1}), 1e-9);
    near(rows.prod(1), apart.prod(1));
    near(logsumexp(rows, {1}), logsumexp(apart, {1}));
  }
  EXPECT_TRUE(equal(full({20}, 3, Dtype::i64).prod(), tensor(int64_t{3486784401})));
}

// As the gradient of a bias for 50,000 words: rows as wide as a part of a sum, and wider.
TEST(Folds, SumsOfWideRows) {
  manual_seed(6);
  for (auto [n, width] :
       {std::pair<int64_t, int64_t>{64, 40000}, {3, 70000}, {200, 20000}, {33, 32768}})
    for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16}) {
      Tensor x = randint(-4, 5, {2, n, width}).to(dtype);  // sums are exact
      Tensor whole = x.to(Dtype::i64);
      EXPECT_TRUE(equal(x.sum(1), whole.sum(1).to(dtype))) << n << " x " << width << " " << dtype;
      EXPECT_TRUE(equal(x.select(0, 1).sum(0), whole.select(0, 1).sum(0).to(dtype)));
      EXPECT_TRUE(equal(x.sum({0, 2}), whole.sum({0, 2}).to(dtype)));
    }
}

TEST(Folds, LogSumExpOfLargeInputsKeepsInfinities) {
  Tensor x = full({4, 512}, -inf);
  x.select(0, 1).fill_(1000.0);
  x.select(0, 2).select(0, 3).fill_(inf);
  x.select(0, 3).select(0, 3).fill_(nan);
  std::vector<float> found = floats_of(logsumexp(x, {1}));
  EXPECT_EQ(found[0], -inf);
  EXPECT_FLOAT_EQ(found[1], 1000.0f + std::log(512.0f));
  EXPECT_EQ(found[2], inf);
  EXPECT_TRUE(std::isnan(found[3]));
}

TEST(IndexAdd, OfWholeSlicesIsScatterAdd) {
  manual_seed(9);
  for (int64_t dim : {0, 1, 2, -1}) {
    Tensor self = randn({5, 6, 7}), index = tensor({4, 0, 4, 3});
    std::vector<int64_t> sizes{5, 6, 7}, spread{1, 1, 1};
    size_t at = static_cast<size_t>(dim < 0 ? dim + 3 : dim);
    sizes[at] = spread[at] = 4;
    Tensor source = randn(sizes), wide = index.reshape(spread).expand(sizes);
    EXPECT_TRUE(equal(self.index_add(dim, index, source), self.scatter_add(dim, wide, source)));
    EXPECT_TRUE(
        equal(self.index_add(dim, index, source, 0.5), self.scatter_add(dim, wide, source * 0.5)));
    Tensor turned = self.permute({2, 0, 1});
    EXPECT_TRUE(equal(turned.index_add(1, index, randn({7, 4, 6}).zero_()), turned));
  }
  EXPECT_THROW(zeros({2, 3}).index_add(0, tensor({2}), ones({1, 3})), UserError);
}

}  // namespace
}  // namespace tenon
