// Matrix products against the naive triple loop: all ways, transpositions, types, levels, threads.
#include "core/kernels/gemm.h"

#include <cmath>
#include <limits>

#include "core/threads/thread_pool.h"
#include "kernel_test.h"

namespace tenon::kernels {
namespace {

struct GemmLevels : EachLevel {};
TENON_TEST_EACH_LEVEL(GemmLevels);

struct Shape {
  int64_t m, n, k;
};

// One product with gaps between rows; the gaps of C must stay as they are.
template <class T>
struct Case {
  using Scale = typename GemmScale<T>::type;
  Gemm<T> call;
  std::vector<T> a, b, c;

  Case(Shape s, bool ta, bool tb, Scale alpha, Scale beta, int64_t batch = 1) {
    const int64_t lda = (ta ? s.m : s.k) + random_int(0, 3);
    const int64_t ldb = (tb ? s.k : s.n) + random_int(0, 3);
    const int64_t ldc = s.n + random_int(0, 3);
    const int64_t size_a = lda * (ta ? s.k : s.m), size_b = ldb * (tb ? s.n : s.k);
    const double range = std::is_integral_v<T> ? 100 : 1;
    a = random_values<T>(size_a * batch, -range, range);
    b = random_values<T>(size_b * batch, -range, range);
    c = random_values<T>(ldc * s.m * batch, -range, range);
    call = {.trans_a = ta ? Trans::yes : Trans::no,
            .trans_b = tb ? Trans::yes : Trans::no,
            .m = s.m,
            .n = s.n,
            .k = s.k,
            .alpha = alpha,
            .a = a.data(),
            .lda = lda,
            .b = b.data(),
            .ldb = ldb,
            .beta = beta,
            .c = c.data(),
            .ldc = ldc,
            .batch = batch,
            .stride_a = size_a,
            .stride_b = size_b,
            .stride_c = ldc * s.m};
  }

  double exact(const std::vector<T>& before, int64_t index, int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t p = 0; p < call.k; ++p) {
      const T* x = call.a + index * call.stride_a;
      const T* y = call.b + index * call.stride_b;
      sum += static_cast<double>(call.trans_a == Trans::yes ? x[p * call.lda + i]
                                                            : x[i * call.lda + p]) *
             static_cast<double>(call.trans_b == Trans::yes ? y[j * call.ldb + p]
                                                            : y[p * call.ldb + j]);
    }
    const auto old = before[static_cast<size_t>(index * call.stride_c + i * call.ldc + j)];
    return static_cast<double>(call.alpha) * sum +
           static_cast<double>(call.beta) * static_cast<double>(old);
  }

  void run_and_check(double absolute, double relative = 0) {
    const std::vector<T> before = c;
    gemm(call);
    for (int64_t index = 0; index < call.batch; ++index)
      for (int64_t i = 0; i < call.m; ++i)
        for (int64_t j = 0; j < call.ldc; ++j) {
          const auto at = static_cast<size_t>(index * call.stride_c + i * call.ldc + j);
          if (j >= call.n) {
            ASSERT_EQ(static_cast<double>(c[at]), static_cast<double>(before[at])) << "gap of C";
          } else if constexpr (std::is_integral_v<T>) {
            const auto whole = static_cast<int64_t>(exact(before, index, i, j));
            ASSERT_EQ(c[at], static_cast<T>(whole)) << describe(i, j);
          } else {
            const double expected = exact(before, index, i, j);
            ASSERT_NEAR(static_cast<double>(c[at]), expected,
                        absolute + relative * std::abs(expected))
                << describe(i, j);
          }
        }
  }

  std::string describe(int64_t i, int64_t j) const {
    return "element " + std::to_string(i) + ", " + std::to_string(j) + " of " +
           std::to_string(call.m) + " x " + std::to_string(call.n) + " x " +
           std::to_string(call.k) + (call.trans_a == Trans::yes ? " T" : " N") +
           (call.trans_b == Trans::yes ? "T" : "N");
  }
};

constexpr Shape shapes[] = {
    {1, 1, 1},    {1, 300, 77}, {2, 130, 31},   {3, 257, 40},  {5, 70, 300},  {8, 33, 65},
    {9, 64, 100}, {24, 50, 33}, {25, 47, 300},  {61, 1, 90},   {70, 5, 129},  {50, 8, 257},
    {37, 97, 13}, {64, 64, 64}, {250, 65, 260}, {13, 1100, 9}, {12, 32, 256}, {48, 96, 1}};

template <class T>
void check_all(typename GemmScale<T>::type alpha, typename GemmScale<T>::type beta, double per_term,
               double rounding) {
  for (const Shape s : shapes)
    for (int t = 0; t < 4; ++t)
      Case<T>(s, t & 1, t & 2, alpha, beta)
          .run_and_check(per_term * static_cast<double>(s.k + 4), rounding);
}

TEST_P(GemmLevels, FloatAgreesWithTheTripleLoop) {
  check_all<float>(1, 0, 1.2e-7, 1.2e-7);
  check_all<float>(0.5f, -2, 1.2e-7, 2.4e-7);
}

TEST_P(GemmLevels, DoubleAgreesWithTheTripleLoop) {
  check_all<double>(1, 1, 2.3e-16, 2.3e-16);
  check_all<double>(-1.5, 0, 2.3e-16, 4.6e-16);
}

TEST_P(GemmLevels, SixteenBitTypesSumInFloatAndRoundOnce) {
  check_all<BFloat16>(1, 0, 1.2e-7, 0x1p-8);
  check_all<Half>(2, 1, 1.2e-7, 0x1p-11);
}

TEST_P(GemmLevels, IntegersAreExactAndWrap) {
  check_all<int32_t>(1, 0, 0, 0);
  check_all<int64_t>(-3, 2, 0, 0);
  check_all<int16_t>(1, 1, 0, 0);
  check_all<int8_t>(1, 0, 0, 0);
}

TEST_P(GemmLevels, BatchesUseTheirStrides) {
  Case<float>({17, 33, 20}, false, false, 1, 0, 7).run_and_check(1e-5);
  Case<double>({3, 5, 4}, true, true, 2, 1, 40).run_and_check(1e-12);
  Case<float> shared({4, 6, 5}, false, true, 1, 0, 3);
  shared.call.stride_b = 0;
  shared.run_and_check(1e-5);
}

// A chain over all of the terms would have twice this error, for numbers of both signs.
TEST_P(GemmLevels, ManyTermsAreAddedInShortChains) {
  for (const Shape s : {Shape{3, 70, 8192}, Shape{70, 3, 8192}, Shape{40, 70, 8192}})
    for (int t = 0; t < 4; ++t) {
      Case<float> c(s, t & 1, t & 2, 1, 0);
      const std::vector<float> before = c.c;
      gemm(c.call);
      double errors = 0, squares = 0;
      for (int64_t i = 0; i < s.m; ++i)
        for (int64_t j = 0; j < s.n; ++j) {
          const double exact = c.exact(before, 0, i, j);
          const double error = c.c[static_cast<size_t>(i * c.call.ldc + j)] - exact;
          errors += error * error, squares += exact * exact;
        }
      EXPECT_LE(std::sqrt(errors / squares), 4e-7) << c.describe(0, 0);
    }
}

TEST_P(GemmLevels, BetaZeroDoesNotReadC) {
  for (const Shape s : shapes) {
    Case<float> c(s, false, true, 1, 0);
    std::fill(c.c.begin(), c.c.end(), std::numeric_limits<float>::quiet_NaN());
    gemm(c.call);
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j)
        ASSERT_FALSE(std::isnan(c.c[static_cast<size_t>(i * c.call.ldc + j)]));
  }
}

TEST_P(GemmLevels, NaNOfAnOperandReachesItsRowOnly) {
  Case<float> c({40, 40, 40}, false, false, 1, 0);
  c.a[static_cast<size_t>(7 * c.call.lda + 3)] = std::numeric_limits<float>::quiet_NaN();
  gemm(c.call);
  for (int64_t i = 0; i < 40; ++i)
    EXPECT_EQ(std::isnan(c.c[static_cast<size_t>(i * c.call.ldc)]), i == 7);
}

TEST_P(GemmLevels, WithoutTermsCIsScaled) {
  float c[2] = {3, std::numeric_limits<float>::infinity()};
  gemm<float>(Trans::no, Trans::no, 1, 2, 0, 1, nullptr, 0, nullptr, 2, 2, c, 2);
  EXPECT_EQ(c[0], 6);
  gemm<float>(Trans::no, Trans::no, 1, 2, 0, 1, nullptr, 0, nullptr, 2, 0, c, 2);
  EXPECT_EQ(c[1], 0);
}

TEST_P(GemmLevels, TheNumberOfThreadsChangesNoBit) {
  const int before = num_threads();
  for (const Shape s :
       {Shape{300, 280, 600}, Shape{8, 4000, 300}, Shape{20, 3000, 400}, Shape{4000, 4, 300}}) {
    for (int t = 0; t < 4; ++t) {
      Case<float> one(s, t & 1, t & 2, 1, 0);
      set_num_threads(1);
      gemm(one.call);
      std::vector<float> many = one.c;
      one.call.c = many.data();
      set_num_threads(5);
      gemm(one.call);
      ASSERT_TRUE(one.c == many) << one.describe(0, 0);
    }
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace tenon::kernels
