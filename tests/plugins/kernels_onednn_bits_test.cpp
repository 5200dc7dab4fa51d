// Products through oneDNN: the first one of some weights, which are not packed yet, has the bits of
// those that come later, and errors are at most 1.5 times PyTorch's (bench/accuracy).
#include "backend/catalog.h"
#include "core/threads/thread_pool.h"

#include <tenon/ops.h>
#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace tenon {
namespace {

void expect_same_bits(const std::string& name, const std::function<Tensor()>& product) {
  std::vector<float> first = product().contiguous().to_vector<float>();
  for (int time = 1; time < 3; ++time)
    EXPECT_EQ(product().contiguous().to_vector<float>(), first) << name << ", call " << time;
}

double root_mean_square(const Tensor& x) { return std::sqrt((x * x).mean().item<double>()); }

/// Of x times w, against double precision and relative to the results.
double error_of_product(const Tensor& x, const Tensor& w) {
  Tensor exact = matmul(to(x, Dtype::f64), to(w, Dtype::f64));
  return root_mean_square(to(matmul(x, w), Dtype::f64) - exact) / root_mean_square(exact);
}

class KernelsOnednnBits : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    set_plugin_search({TENON_PLUGIN_DIR "/tenon_kernels_onednn.so"}, {});
    set_num_threads(GetParam());
  }
  void TearDown() override { set_num_threads(before_); }

 private:
  int before_ = num_threads();
};

TEST_P(KernelsOnednnBits, TheFirstProductIsAsLaterOnes) {
  for (int64_t m : {1, 4, 17, 33, 200})
    for (int64_t k : {65, 100, 512, 768, 1024})
      for (int64_t n : {10, 129, 512}) {
        std::string name = message("{} x {} x {}", m, k, n);
        Tensor x = randn({m, k}), w = randn({k, n}), layer = randn({n, k}), bias = randn({n});
        expect_same_bits(name, [&] { return x.matmul(w); });
        expect_same_bits(name + ", turned", [&] { return x.matmul(layer.t()); });
        expect_same_bits(name + ", a layer", [&] { return linear(x, layer, bias); });
      }
}

// Of one row or column; a chain over all of the terms would have thrice this error.
TEST_P(KernelsOnednnBits, ManyTermsOfOneRowAreAddedInShortChains) {
  constexpr double torch = 2.63e-7;
  Tensor x = randn({512, 4096}), w = randn({4096, 512});
  for (const Tensor& row : {w.slice(1, 0, 1).t(), x.slice(0, 0, 1)})
    for (const Tensor& right : {w, x.t()}) EXPECT_LE(error_of_product(row, right), 1.5 * torch);
  for (const Tensor& column : {w.slice(1, 0, 1), x.slice(0, 0, 1).t()})
    for (const Tensor& left : {x, w.t()}) EXPECT_LE(error_of_product(left, column), 1.5 * torch);
}

INSTANTIATE_TEST_SUITE_P(Threads, KernelsOnednnBits, testing::Values(1, 2, 4));

}  // namespace
}  // namespace tenon
