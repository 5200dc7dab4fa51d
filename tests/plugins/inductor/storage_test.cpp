// What ops see that look at memory by place, in the inductor backend: the storage that the graph
// promises, whatever layout suits the readers of its elements.
#include <gmock/gmock.h>

#include "plugins/code_makers.h"
#include "plugins/inductor/ops.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;

TENON_LIBRARY(storage_test, lib) {
  // Its operand's strides and offset, as an op of another author may read them.
  lib.op("geometry(Tensor x) -> Tensor")
      .meta([](const Tensor& x) { return empty({x.dim() + 1}, Dtype::i64); })
      .kernel([](Tensor& out, const Tensor& x) {
        for (int64_t d = 0; d < x.dim(); ++d) out.data_ptr<int64_t>()[d] = x.stride(d).guard_int();
        out.data_ptr<int64_t>()[x.dim()] = x.storage_offset();
      });
}
const Op<Tensor(const Tensor&)> geometry{"storage_test::geometry"};

int64_t numel_of(const std::vector<int64_t>& sizes) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return n;
}

class InductorStorage : public InductorOps {
 protected:
  template <class F>
  static void expect_as_eager(F f, const std::vector<Tensor>& inputs, bool is_dynamic = false) {
    for (const std::string& backend : code_makers()) {
      Options options{.backend = backend};
      if (is_dynamic) options.dynamic = true;
      auto compiled = compile(f, options);
      for (const Tensor& x : inputs)
        EXPECT_LE(distance(compiled(x), f(x)), 1e-5)
            << backend << ", " << x.size(0).guard_int() << " rows";
    }
  }
};

TEST_F(InductorStorage, AViewOfAComputedValueShowsThePromisedStorage) {
  auto of_copy = [](const Tensor& x) {
    return x.t().contiguous().t().as_strided({2, 2}, {1, 3}, 0);
  };
  expect_as_eager(of_copy, {randn({3, 4})});
  expect_as_eager(of_copy, {randn({3, 4}), randn({5, 2}), randn({6, 7})}, true);
  auto of_sum = [](const Tensor& x) { return (x + 1).as_strided({2, 5}, {7, 2}, 3) * 2; };
  expect_as_eager(of_sum, {randn({4, 6}), randn({4, 6}).t().contiguous().t()});
  expect_as_eager(of_sum, {randn({4, 6}), randn({6, 5}), randn({9, 9})}, true);
}

// Two elements seen as one have to lie side by side, whatever order suits those who read them.
TEST_F(InductorStorage, OtherElementsOverTheSameBytesLieAsPromised) {
  auto of_pairs = [](const Tensor& x) {
    return view_as_real(view_as_complex((x.t() * 2).contiguous())) + 1;
  };
  expect_as_eager(of_pairs, {randn({2, 3})});
  expect_as_eager(of_pairs, {randn({2, 3}), randn({2, 5}), randn({2, 8})}, true);
  auto of_columns = [](const Tensor& x) {
    Tensor parts = cat({x.t().unsqueeze(2), (x.t() * 2).unsqueeze(2)}, 2).contiguous();
    return view_as_real(view_as_complex(parts)).sum({0});
  };
  expect_as_eager(of_columns, {randn({4, 3})});
  auto of_bytes = [](const Tensor& x) {
    return (x.t() + 1).contiguous().view(Dtype::i16).bitwise_and(255).to(Dtype::f32);
  };
  expect_as_eager(of_bytes, {randn({4, 6})});
}

// Cut into tiles where the sizes have divisors, with more functions, operands and dtypes around.
TEST_F(InductorStorage, TransposedCopiesOfAllSizes) {
  auto copy = [](const Tensor& x) { return x.t().contiguous(); };
  auto mixed = [](const Tensor& x) { return (x.t() + x.reshape({x.size(1), x.size(0)})).relu(); };
  auto moved = [](const Tensor& x) { return x.unflatten(0, {4, -1}).permute({2, 0, 1}) * 2; };
  for (auto [n, m] : {std::pair<int64_t, int64_t>{96, 160}, {128, 64}, {80, 100}, {68, 1013}})
    for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::i64, Dtype::u8}) {
      Tensor x = (randn({n, m}) * 50).to(dtype);
      expect_as_eager(copy, {x});
      expect_as_eager(mixed, {x});
      expect_as_eager(moved, {x});
      expect_as_eager(copy, {x.t()});
    }
  expect_as_eager(copy, {randn({96, 160}), randn({64, 160}), randn({33, 70})}, true);
}

TEST_F(InductorStorage, APartShowsAllOfItsStorage) {
  auto all_of_row = [](const Tensor& x) {
    return sin(x).select(0, 1).as_strided({4, 6}, {6, 1}, 0) + 1;
  };
  expect_as_eager(all_of_row, {randn({4, 6})});
  expect_as_eager(all_of_row, {randn({4, 6}), randn({5, 6})}, true);
  auto from_where_it_begins = [](const Tensor& x) {
    return sin(x).slice(0, 1, 3).as_strided({2, 3}, {3, 1});
  };
  expect_as_eager(from_where_it_begins, {randn({4, 6})});
}

TEST_F(InductorStorage, AnImageIsLaidOutAsPromised) {
  Tensor w = randn({8, 4, 3, 3});
  expect_as_eager(
      [w](const Tensor& x) {
        return conv2d(x, w).as_strided({8, 36}, {36, 1}, 0);
      },
      {randn({1, 4, 8, 8})});
}

TEST_F(InductorStorage, APartOfAStorageIsReplaced) {
  expect_as_eager(
      [](const Tensor& x) {
        Tensor y = (x * 2).t();
        return y.as_strided_scatter(ones({2, 2}), {2, 2}, {1, 3}, 1) + 1;
      },
      {randn({3, 4})});
  // All sides of what is placed: the last element, the first, each once, some twice, one, none.
  auto part = [](IntList size, IntList stride, std::optional<SymInt> offset) {
    return [=, size = std::vector(size.begin(), size.end()),
            stride = std::vector(stride.begin(), stride.end())](const Tensor& x) {
      return x.as_strided_scatter(
                 arange(60).to(Dtype::f32).slice(0, 0, numel_of(size)).reshape(size), size, stride,
                 offset) +
             1;
    };
  };
  for (const Tensor& x : {randn({3, 4}), randn({4, 3}).t(), randn({12})}) {
    expect_as_eager(part({2, 2}, {8, 3}, 0), {x});
    expect_as_eager(part({2, 2}, {5, 6}, {}), {x});
    expect_as_eager(part({3, 4}, {1, 3}, 0), {x});
    expect_as_eager(part({3}, {0}, 2), {x});
    expect_as_eager(part({1}, {1}, 11), {x});
    expect_as_eager(part({0}, {1}, 0), {x});
  }
}

TEST_F(InductorStorage, KernelsOfOthersGetThePromisedStrides) {
  auto f = [](const Tensor& x) { return geometry((x.t() + 1).contiguous().t().slice(1, 1)); };
  for (const std::string& backend : code_makers())
    EXPECT_THAT(compile(f, {.backend = backend})(randn({3, 4})).to_vector<int64_t>(),
                ElementsAre(1, 3, 3))
        << backend;
}

}  // namespace
}  // namespace tenon
