// Compiled backward passes in the cache of compiled graphs: they are recorded with symbols of their
// own, and find what was kept with others.
#include "plugins/graph_cache/fixture.h"

#include <tenon/compiled_autograd.h>
#include <tenon/tenon.h>

#include <gmock/gmock.h>

namespace tenon {
namespace {

class PassCaching : public GraphCacheTest {
 protected:
  void SetUp() override {
    GraphCacheTest::SetUp();
    compiled_autograd::reset();  // passes of other tests
    manual_seed(3);
    w_ = randn({16, 16}), b_ = randn({16});
  }

  /// Gradients of passes whose batches have these sizes, one after the other.
  std::vector<float> gradients(std::initializer_list<int64_t> batches) const {
    auto on = compiled_autograd::enable("inductor");
    return plain_gradients(batches);
  }
  std::vector<float> plain_gradients(std::initializer_list<int64_t> batches) const {
    Tensor w = w_.clone().requires_grad_(), b = b_.clone().requires_grad_();
    for (int64_t n : batches) {
      Tensor x = arange(n * 16, Dtype::f32).reshape({n, 16}) / 100.0;
      (x.matmul(w) + b).tanh().mul(x).sum().backward();
    }
    std::vector<float> out = w.grad().to_vector<float>();
    for (float v : b.grad().to_vector<float>()) out.push_back(v);
    return out;
  }

  Tensor w_, b_;
};

TEST_F(PassCaching, WhatWasForgottenComesFromTheDisk) {
  std::vector<float> first = gradients({8, 9, 5});
  EXPECT_EQ(counted(), "miss 1 saved 1");
  compiled_autograd::reset();
  EXPECT_EQ(gradients({8, 9, 5}), first);
  EXPECT_EQ(counted(), "hit 1");
  // Sizes that the example did not have, too.
  compiled_autograd::reset();
  std::vector<float> others = gradients({3, 30});
  EXPECT_EQ(counted(), "hit 1");
  std::vector<float> plain = plain_gradients({3, 30});
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(others[i], plain[i], 1e-4f) << i;
}

}  // namespace
}  // namespace tenon
