// Checkpoints in compiled bodies: what they compute is computed again in the backward, with the
// same random numbers.
#include "program.h"

#include <tenon/autograd.h>
#include <tenon/random.h>

namespace tenon::programs {
namespace {

Tensor once(std::function<Tensor(const Tensor&, const Tensor&)> f, const Tensor& x,
            const Tensor& w) {
  return autograd::checkpoint(
      [f](const std::vector<Tensor>& in) { return std::vector<Tensor>{f(in[0], in[1])}; },
      {x, w})[0];
}

TENON_PROGRAM(ARegionThatReadsArguments, 6) {
  auto f = run.compile([](const Tensor& x, const Tensor& w, bool again) {
    auto layer = [](const Tensor& x, const Tensor& w) { return (x * w).sin().exp(); };
    return again ? once(layer, x, w) : layer(x, w);
  });
  for (int i = 0; i < 6; ++i) {
    Tensor x = (arange(2 + 2 * (i % 3)).to(Dtype::f32) * 0.25).requires_grad_();
    Tensor w = tensor(1.5f).requires_grad_(i != 4);
    Tensor y = f(x, w, i % 2 == 0);
    y.sum().backward();
    run.log(y, x.grad(), w.grad());
  }
}

TENON_PROGRAM(ARegionThatReadsACapturedWeight, 3) {
  Tensor w = (arange(4).to(Dtype::f32) * 0.25).view({2, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    auto layer = [&](const Tensor& h, const Tensor& bias) { return (h.matmul(w) + bias).tanh(); };
    return once(layer, once(layer, x, x), x * 0.5).sum();
  });
  for (int64_t n : {2, 3, 2}) {
    w.set_grad({});
    Tensor loss = f(ones({n, 2}) * 0.5);
    loss.backward();
    run.log(loss, w.grad());
  }
}

TENON_PROGRAM(ARegionThatDraws, 3) {
  Tensor w = ones({4, 4}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    auto layer = [](const Tensor& x, const Tensor& w) {
      return dropout(x.matmul(w), 0.5, true).tanh();
    };
    return once(layer, x, w).sum();
  });
  for (int i = 0; i < 4; ++i) {
    w.set_grad({});
    Tensor loss = f(ones({3, 4}) * (0.125 * i));
    loss.backward();
    run.log(loss, w.grad(), rng_state().offset);
  }
}

}  // namespace
}  // namespace tenon::programs
