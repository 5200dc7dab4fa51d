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

// A region outside of compiled code, which runs again in the backward pass. Its hooks are on while
// the callable is compiled.
Tensor checkpointed(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  auto region = [f](const std::vector<Tensor>& in) { return std::vector{f(in[0])}; };
  return autograd::checkpoint(region, {x})[0];
}

TENON_PROGRAM(ACompiledCallableInARegion, 4) {
  Tensor w = row({1, 0.5, -2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return dropout(x * w, 0.5, true).relu() + x; });
  for (int i = 0; i < 5; ++i) {
    manual_seed(3 + i);
    w.set_grad({});
    Tensor x = row({0.5, 2, float(i)}).requires_grad_();
    Tensor y = checkpointed([&](const Tensor& t) { return f(f(t)) * t; }, x);
    y.sum().backward();
    run.log(y.detach(), w.grad(), x.grad(), rand({1}));
  }
}

TENON_PROGRAM(ACutCallableInARegion, 8) {
  Tensor w = row({1, 0.5}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * w;
    if (y.sum().item<float>() > 2) y = y.relu() * 0.5;
    return y * w;
  });
  for (int i = 0; i < 6; ++i) {
    w.set_grad({});
    Tensor x = row({0.5, float(i) - 1}).requires_grad_();
    Tensor y = checkpointed([&](const Tensor& t) { return f(f(t)); }, x);
    y.sum().backward();
    run.log(y.detach(), w.grad(), x.grad());
  }
}

// What nodes save goes through them; what a tape saves for the compiler does not.
TENON_PROGRAM(HooksOnWhatIsSavedWhileCodeIsCompiled, 8) {
  Tensor w = row({1, 2}).requires_grad_();
  bool fakes = false;
  for (int i = 0; i < 3; ++i) {
    auto f = run.compile([&](const Tensor& x) { return (x * w).square().sum(); });
    auto pack = [&](const Tensor& t) -> std::shared_ptr<void> {
      fakes = fakes || t.is_fake();
      return std::make_shared<Tensor>(t.detach().clone());
    };
    auto unpack = [](const std::shared_ptr<void>& kept) {
      return *static_cast<Tensor*>(kept.get());
    };
    Tensor y;
    {
      autograd::SavedTensorHooks hooks(pack, unpack);
      y = f(row({1, float(i)}));
    }
    w.set_grad({});
    y.backward();
    run.log(y.detach(), w.grad(), fakes);
  }
}

}  // namespace
}  // namespace tenon::programs
