// Attention where the fused op, its parts and its derivative must agree.
#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <cmath>

namespace tenon {
namespace {

Tensor steps(int period, double step, double offset) {
  return (arange(64, Dtype::f32).remainder(period) * step - offset).reshape({2, 2, 4, 4});
}

// PyTorch 2.15 gives these sums of gradients, and 0 for the logarithms of the rows.
TEST(Attention, RowsThatAMaskHidesWhollyHaveNoGradient) {
  Tensor mask = zeros({2, 1, 4, 4});
  mask.select(0, 1).select(1, 2).fill_(-INFINITY);
  mask.select(0, 0).select(1, 3).fill_(-INFINITY);
  auto sums_of = [&](auto attend) {
    Tensor q = steps(7, 0.3, 0.9).requires_grad_(), k = steps(5, 0.3, 0.6).requires_grad_(),
           v = steps(3, 0.5, 0.5).requires_grad_();
    attend(q, k, v).sin().sum().backward();
    return stack({q.grad().abs().sum(), k.grad().abs().sum(), v.grad().sum()});
  };
  Tensor of_parts = sums_of([&](const Tensor& q, const Tensor& k, const Tensor& v) {
    return scaled_dot_product_attention(q, k, v, mask);
  });
  Tensor with_sums = sums_of([&](const Tensor& q, const Tensor& k, const Tensor& v) {
    auto [out, logarithms] = _scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, false, mask);
    EXPECT_EQ(logarithms.detach().select(0, 1).select(1, 2).abs().sum().item<float>(), 0);
    return out;
  });
  EXPECT_TRUE(with_sums.isfinite().all().item<bool>());
  EXPECT_TRUE(((with_sums - of_parts).abs() < 1e-4).all().item<bool>()) << with_sums << of_parts;
}

// As PyTorch's fused op leaves it, whether gradients are needed or not.
TEST(Attention, ResultsLieLikeTheQuery) {
  for (bool needs_grad : {false, true})
    for (bool is_causal : {false, true}) {
      Tensor w = steps(7, 0.3, 0.9).requires_grad_(needs_grad), q = w.transpose(1, 2);
      Tensor y = scaled_dot_product_attention(q, q, q, {}, 0.0, is_causal);
      EXPECT_TRUE(y.transpose(1, 2).is_contiguous()) << needs_grad << is_causal;
    }
}

}  // namespace
}  // namespace tenon
