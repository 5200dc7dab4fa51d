// Sorting, choosing and grouping on a GPU, against the CPU: the plugin kernels_cub.
#include "needs_gpu.h"

#include <tenon/devices.h>
#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace tenon {
namespace {

constexpr Device gpu(DeviceType::cuda);

Tensor there(const Tensor& t) { return t.to(gpu, t.dtype()); }
Tensor back(const Tensor& t) { return t.to(kCPU, t.dtype()); }

// Equal elements, where NaN equals NaN.
bool are_same(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.sizes() == b.sizes())) return false;
  if (a.numel() == 0) return true;
  Tensor x = a.to(Dtype::f64), y = b.to(Dtype::f64);
  return static_cast<bool>(x.eq(y).logical_or(x.isnan().logical_and(y.isnan())).all());
}

class GpuSorting : public testing::Test {
 protected:
  void SetUp() override {
    TENON_NEEDS_A_GPU();
    try {
      sort(there(ones({2})));
    } catch (const Error& e) {
      if (std::string(e.what()).find("cannot run on") == std::string::npos) throw;
      GTEST_SKIP() << "kernels_cub is not installed: " << e.what();
    }
    manual_seed(5);
  }
};

std::vector<Tensor> vectors(std::initializer_list<int64_t> sizes) {
  Tensor whole = randint(-50, 50, IntList(sizes));
  Tensor real = randn(IntList(sizes));
  return {real,
          real.to(Dtype::f64),
          real.to(Dtype::f16),
          real.to(Dtype::bf16),
          whole,
          whole.to(Dtype::i32),
          whole.to(Dtype::i16),
          whole.to(Dtype::i8),
          whole.abs().to(Dtype::u8),
          whole > 0};
}

TEST_F(GpuSorting, RowsOfAllTypesAndSizes) {
  for (auto sizes : {std::initializer_list<int64_t>{1}, {1000}, {7, 33}, {3, 5, 4}, {300, 3}})
    for (const Tensor& x : vectors(sizes))
      for (bool descending : {false, true})
        for (int64_t dim = 0; dim < x.dim(); ++dim) {
          auto [values, indices] = sort(there(x), dim, descending);
          auto [expected, places] = sort(x, dim, descending);
          ASSERT_TRUE(are_same(back(values), expected)) << to_text(x) << " dim " << dim;
          ASSERT_TRUE(are_same(back(indices), places)) << to_text(x) << " dim " << dim;
          ASSERT_TRUE(values.strides() == expected.strides());
        }
}

TEST_F(GpuSorting, LongRowsAndLayouts) {
  Tensor x = randn({3, 1 << 18});
  EXPECT_TRUE(are_same(back(std::get<0>(sort(there(x), -1))), std::get<0>(sort(x, -1))));
  Tensor wide = randn({40, 30}), turned = there(wide).t();
  auto [values, indices] = sort(turned, 0);
  EXPECT_TRUE(are_same(back(values), std::get<0>(sort(wide.t(), 0))));
  Tensor part = there(wide).slice(1, 3, 20);
  EXPECT_TRUE(
      are_same(back(std::get<1>(sort(part, 1))), std::get<1>(sort(wide.slice(1, 3, 20), 1))));
  EXPECT_EQ(std::get<0>(sort(there(zeros({0, 4})))).size(0), 0);
  EXPECT_EQ(std::get<0>(sort(there(full({}, 2.0)))).item<float>(), 2.0f);
}

TEST_F(GpuSorting, NanIsAboveAllAndZeroHasOneSign) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float inf = std::numeric_limits<float>::infinity();
  Tensor x = tensor({nan, 1.0f, -inf, -0.0f, 0.0f, inf, -nan, -2.0f, -0.0f});
  for (bool descending : {false, true}) {
    auto [values, indices] = sort(there(x), 0, descending);
    auto [expected, places] = sort(x, 0, descending);
    EXPECT_TRUE(are_same(back(values), expected));
    EXPECT_TRUE(are_same(back(indices), places));
  }
}

TEST_F(GpuSorting, TheFirstFewOfEachRow) {
  Tensor x = randn({6, 200});
  for (bool largest : {true, false})
    for (int64_t k : {0, 1, 7, 200}) {
      auto [values, indices] = topk(there(x), k, 1, largest);
      auto [expected, places] = topk(x, k, 1, largest);
      EXPECT_TRUE(are_same(back(values), expected)) << k;
      EXPECT_TRUE(are_same(back(indices), places)) << k;
    }
  EXPECT_TRUE(are_same(back(std::get<0>(topk(there(x), 2, 0))), std::get<0>(topk(x, 2, 0))));
}

TEST_F(GpuSorting, WhatIsNotZeroIsFoundAndChosen) {
  for (auto sizes : {std::initializer_list<int64_t>{0}, {1}, {5, 7}, {3, 4, 50}, {100000}}) {
    Tensor x = randint(0, 3, IntList(sizes)).to(Dtype::f32), mask = x > 1;
    ASSERT_TRUE(are_same(back(nonzero(there(x))), nonzero(x)));
    ASSERT_TRUE(are_same(back(masked_select(there(x), there(mask))), masked_select(x, mask)));
  }
  Tensor x = randn({4, 6}), rows = tensor({true, false, true, true}).unsqueeze(1);
  Tensor values = randn({18}), some = randn({6, 4}) > 0.0;
  EXPECT_TRUE(are_same(back(masked_select(there(x), there(rows))), masked_select(x, rows)));
  EXPECT_TRUE(are_same(back(there(x).masked_scatter(there(rows), there(values))),
                       x.masked_scatter(rows, values)));
  EXPECT_TRUE(are_same(back(there(x).t().masked_scatter(there(some), there(randn_like(x)).zero_())),
                       x.t().masked_fill(some, 0)));
  EXPECT_THROW(there(x).masked_scatter(there(rows), there(values.slice(0, 0, 17))), Error);
  EXPECT_TRUE(are_same(back(nonzero(there(x).t())), nonzero(x.t())));
  EXPECT_TRUE(are_same(back(nonzero(there(tensor({-0.0f, 0.0f, 1.0f})))),
                       nonzero(tensor({-0.0f, 0.0f, 1.0f}))));
}

TEST_F(GpuSorting, AMaskAmongIndicesStandsForPositions) {
  Tensor x = randn({5, 6, 4}), rows = randn({5}) > 0.0, both = randn({5, 6}) > 0.0;
  Tensor at = tensor({int64_t{2}});
  for (bool is_empty : {false, true}) {
    if (is_empty) both = both.logical_and(both.logical_not());
    EXPECT_TRUE(are_same(back(there(x).index({there(rows)})), x.index({rows})));
    EXPECT_TRUE(are_same(back(there(x).index({there(both)})), x.index({both})));
    Tensor written = x.clone(), written_there = there(x.clone());
    written.index_put_({both}, full({}, 3.0f));
    written_there.index_put_({there(both)}, there(full({}, 3.0f)));
    EXPECT_TRUE(are_same(back(written_there), written));
  }
  Tensor leaf = there(x).requires_grad_(), leaf_here = x.clone().requires_grad_();
  leaf.index({there(rows), there(at)}).sum().backward();
  leaf_here.index({rows, at}).sum().backward();
  EXPECT_TRUE(are_same(back(leaf.grad()), leaf_here.grad()));
  auto f = compile([](const Tensor& t, const Tensor& mask) { return t.index({mask}) * 2; });
  EXPECT_TRUE(are_same(back(f(there(x), there(rows))), x.index({rows}) * 2));
}

TEST_F(GpuSorting, EqualElementsAreGrouped) {
  for (const Tensor& x : vectors({6, 50})) {
    auto [values, inverse, counts] = _unique2(there(x), true, true, true);
    auto [expected, places, numbers] = _unique2(x, true, true, true);
    ASSERT_TRUE(are_same(back(values), expected)) << to_text(x);
    ASSERT_TRUE(are_same(back(inverse), places)) << to_text(x);
    ASSERT_TRUE(are_same(back(counts), numbers)) << to_text(x);
  }
  EXPECT_EQ(std::get<0>(_unique2(there(zeros({0})))).numel(), 0);
}

}  // namespace
}  // namespace tenon
