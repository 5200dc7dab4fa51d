#include "device_work.h"

#include <gtest/gtest.h>

namespace tenon {

double furthest(const Tensor& a, const Tensor& b) {
  return static_cast<double>((a - b).abs().max().item<float>());
}

std::pair<Tensor, Tensor> gradients_of_a_product(Device device, const Tensor& x, const Tensor& w) {
  Tensor a = moved(device, x.clone()), b = moved(device, w.clone());
  a.requires_grad_();
  b.requires_grad_();
  (matmul(a, b).tanh() * a.sum()).sum().backward();
  EXPECT_EQ(a.grad().device(), device);
  return std::pair(to_cpu(a.grad()), to_cpu(b.grad()));
}

double loss_of_training(Device device) {
  manual_seed(3);
  nn::Linear layer(8, 2);
  layer.to(device);
  optim::AdamW opt(layer.parameters(), {.lr = 1e-2});
  Tensor x = moved(device, randn({16, 8})), y = moved(device, randn({16, 2}));
  double last = 0;
  for (int i = 0; i < 5; ++i) {
    opt.zero_grad();
    Tensor loss = mse_loss(layer(x), y);
    loss.backward();
    opt.step();
    last = static_cast<double>(loss.item<double>());
  }
  return last;
}

}  // namespace tenon
