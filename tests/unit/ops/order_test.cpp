// Sorting, gathering, scattering, filling by masks and extremes: lengths around the widths of their
// loops, all dtypes, strides, special values, and any number of threads.
#include "core/threads/thread_pool.h"
#include "ops/kernel_loops.h"

#include <tenon/ops.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr Dtype dtypes[] = {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16, Dtype::i64,
                            Dtype::i32, Dtype::i16, Dtype::i8,  Dtype::u8,   Dtype::bool_};

std::vector<double> numbers(const Tensor& t) {
  Tensor dense = contiguous_of(t.to(Dtype::f64));
  return {data_of<double>(dense), data_of<double>(dense) + numel_of(dense)};
}
std::vector<int64_t> places(const Tensor& t) {
  Tensor dense = contiguous_of(t);
  return {data_of<int64_t>(dense), data_of<int64_t>(dense) + numel_of(dense)};
}

// Few different values, so that many are equal; some are NaN, infinite and -0.
Tensor repeating(int64_t rows, int64_t n, Dtype dtype) {
  Tensor x = randint(-7, 8, {rows, n}).to(dtype);
  if (!is_floating(dtype)) return x;
  Tensor marks = randint(0, 20, {rows, n});
  x = x.masked_fill(marks == 0, std::numeric_limits<double>::quiet_NaN());
  x = x.masked_fill(marks == 1, -std::numeric_limits<double>::infinity());
  return x.masked_fill(marks == 2, -0.0);
}

bool is_before(double a, double b) { return std::isnan(a) ? false : std::isnan(b) || a < b; }

std::vector<int64_t> sorted_places(const double* line, int64_t n, bool descending) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return descending ? is_before(line[b], line[a]) : is_before(line[a], line[b]);
  });
  return order;
}

TEST(Order, SortsAreStableForAllDtypesLengthsAndDirections) {
  for (Dtype dtype : dtypes)
    for (int64_t n : {1, 2, 17, 127, 128, 300})
      for (bool descending : {false, true}) {
        Tensor x = repeating(3, n, dtype);
        auto [values, indices] = x.sort(-1, descending);
        std::vector<double> in = numbers(x), out = numbers(values);
        std::vector<int64_t> found = places(indices);
        for (int64_t r = 0; r < 3; ++r) {
          std::vector<int64_t> order = sorted_places(in.data() + r * n, n, descending);
          for (int64_t i = 0; i < n; ++i) {
            auto at = static_cast<size_t>(r * n + i);
            ASSERT_EQ(found[at], order[static_cast<size_t>(i)]) << name_of(dtype) << " n " << n;
            double expected = in[static_cast<size_t>(r * n + found[at])];
            ASSERT_TRUE(out[at] == expected || (std::isnan(out[at]) && std::isnan(expected)));
            ASSERT_EQ(std::signbit(out[at]), std::signbit(expected));
          }
        }
      }
}

TEST(Order, SortsOfExtremeIntegersAndOfOtherDimensions) {
  for (Dtype dtype : {Dtype::i64, Dtype::i32, Dtype::i16, Dtype::i8}) {
    int64_t bits = std::min<int64_t>(62, itemsize(dtype) * 8), low = -(int64_t{1} << (bits - 1));
    Tensor x = arange(100, Dtype::i64).to(dtype);
    x = cat({x, x.new_full({1}, Number(low)), x.new_full({1}, Number(-(low + 1)))}, 0);
    std::vector<int64_t> order = places(std::get<1>(x.sort(0)));
    EXPECT_EQ(order.front(), 100) << name_of(dtype);
    EXPECT_EQ(order.back(), 101) << name_of(dtype);
  }
  Tensor x = repeating(150, 4, Dtype::f32);
  EXPECT_EQ(places(std::get<1>(x.sort(0))), places(std::get<1>(x.t().sort(1)).t()));
  EXPECT_EQ(places(std::get<1>(x.t().contiguous().t().sort(0))), places(std::get<1>(x.sort(0))));
}

TEST(Order, TopkTakesTheLargestWithNanFirst) {
  for (Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::i64})
    for (int64_t n : {9, 200, 1000})
      for (bool largest : {false, true}) {
        Tensor x = repeating(4, n, dtype);
        std::vector<double> top = numbers(std::get<0>(x.topk(8, -1, largest)));
        std::vector<double> all = numbers(std::get<0>(x.sort(-1, largest)));
        for (size_t i = 0; i < top.size(); ++i) {
          double expected = all[i / 8 * static_cast<size_t>(n) + i % 8];
          ASSERT_TRUE(top[i] == expected || (std::isnan(top[i]) && std::isnan(expected)));
        }
      }
}

// Runs `make` with 1, 2, 3 and 7 threads and expects the same numbers.
template <class F>
void expect_same_for_all_threads(const F& make) {
  int before = num_threads();
  std::vector<double> first;
  for (int threads : {1, 2, 3, 7}) {
    set_num_threads(threads);
    std::vector<double> found = numbers(make());
    if (threads == 1) first = found;
    EXPECT_EQ(found, first) << threads << " threads";
  }
  set_num_threads(before);
}

TEST(Order, ResultsDoNotDependOnTheNumberOfThreads) {
  Tensor x = randn({300, 200}), index = randint(200, {300, 200}), rows = randint(300, {300, 200});
  expect_same_for_all_threads([&] { return std::get<1>(x.sort(-1)); });
  expect_same_for_all_threads([&] { return std::get<1>(x.topk(5, 0)); });
  expect_same_for_all_threads([&] { return x.gather(1, index); });
  expect_same_for_all_threads([&] { return x.scatter_add(1, index, x); });
  expect_same_for_all_threads([&] { return x.scatter_add(0, rows, x); });
  expect_same_for_all_threads([&] { return x.scatter_reduce(0, rows, x, "mean", false); });
  expect_same_for_all_threads([&] { return x.masked_fill(x > 0.5, 3); });
  expect_same_for_all_threads([&] { return x.amax({0}); });
  expect_same_for_all_threads([&] { return x.amin(); });
}

TEST(Order, GatherAndScatterFollowTheirIndex) {
  for (int64_t dim : {0, 1}) {
    Tensor x = randn({130, 150}), index = randint(130, {130, 150}),
           sum = x.scatter_add(dim, index, x);
    std::vector<double> in = numbers(x), taken = numbers(x.gather(dim, index)), expected = in;
    std::vector<int64_t> at = places(index);
    std::vector<float> sums(in.begin(), in.end());
    for (size_t i = 0; i < 130; ++i)
      for (size_t j = 0; j < 150; ++j) {
        auto k = static_cast<size_t>(at[i * 150 + j]);
        size_t met = dim == 0 ? k * 150 + j : i * 150 + k;
        EXPECT_EQ(taken[i * 150 + j], in[met]);
        sums[met] += static_cast<float>(in[i * 150 + j]);
      }
    EXPECT_EQ(numbers(sum), std::vector<double>(sums.begin(), sums.end()));
    EXPECT_EQ(numbers(x.t().gather(1 - dim, index.t()).t()), taken);
  }
  Tensor x = randn({200, 200}), index = zeros({200, 200}).to(Dtype::i64);
  index.select(0, 150).fill_(200);
  EXPECT_THAT([&] { x.gather(1, index); },
              ThrowsMessage<UserError>(HasSubstr("index 200 is out of range")));
  EXPECT_EQ(numbers(x.gather(1, index.clamp(0, 0) - 1)),
            numbers(x.slice(1, 199, 200).expand({200, 200})));
}

TEST(Order, MasksFillTensorsOfEveryDtypeAndLayout) {
  for (Dtype dtype : dtypes)
    for (int64_t n : {1, 63, 65, 40000}) {
      Tensor x = arange(n, Dtype::i64).remainder(100).to(dtype),
             mask = randint(2, {n}).to(Dtype::bool_);
      std::vector<double> in = numbers(x), chosen = numbers(mask),
                          out = numbers(x.masked_fill(mask, 1));
      for (size_t i = 0; i < out.size(); ++i)
        ASSERT_EQ(out[i], chosen[i] != 0 ? 1 : in[i]) << name_of(dtype);
    }
  Tensor x = randn({20, 30}), mask = randn({30}) > 0;
  EXPECT_EQ(numbers(x.masked_fill(mask, 2)), numbers(where(mask, x.new_full({}, 2), x)));
  EXPECT_EQ(numbers(x.t().masked_fill(mask.unsqueeze(1), 2).t()), numbers(x.masked_fill(mask, 2)));
}

TEST(Order, ExtremesOfEveryDtypeLengthAndDirectionKeepNan) {
  for (Dtype dtype : dtypes)
    for (int64_t n : {1, 3, 15, 16, 33, 64, 65, 130, 700})
      for (bool rows : {false, true}) {
        Tensor x = repeating(n, 5, dtype);
        if (rows) x = x.t().contiguous();
        std::vector<double> in = numbers(rows ? x : x.t());
        std::vector<double> high = numbers(x.amax({rows ? 1 : 0})),
                            low = numbers(x.amin({rows ? 1 : 0}));
        for (size_t r = 0; r < 5; ++r) {
          double most = in[r * static_cast<size_t>(n)], least = most;
          for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
            double v = in[r * static_cast<size_t>(n) + i];
            if (!std::isnan(most) && (std::isnan(v) || v > most)) most = v;
            if (!std::isnan(least) && (std::isnan(v) || v < least)) least = v;
          }
          EXPECT_TRUE(high[r] == most || (std::isnan(high[r]) && std::isnan(most)))
              << name_of(dtype) << n;
          EXPECT_TRUE(low[r] == least || (std::isnan(low[r]) && std::isnan(least)))
              << name_of(dtype) << n;
        }
      }
}

}  // namespace
}  // namespace tenon
