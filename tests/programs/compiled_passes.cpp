// Backward passes with user code in them: steps of optimisers in hooks, hooks that come and go, tapes
// that take turns.
#include "program.h"

namespace tenon::programs {
namespace {

TENON_PROGRAM(AnOptimiserInHooks, 8) {
  Tensor a = row({1, 2}).requires_grad_(), b = row({0.5, 0.25}).requires_grad_();
  auto update = run.compile([](const Tensor& p, const Tensor& g) { return p - g * 0.25; });
  for (const Tensor& p : {a, b})
    autograd::register_post_accumulate_grad_hook(p, [&](const Tensor& leaf) {
      NoGradGuard off;
      leaf.detach().copy_(update(leaf.detach(), leaf.grad()));
      leaf.set_grad({});
      run.log("updated", leaf.detach());
    });
  auto first = run.compile([&](const Tensor& x) { return (x * a).relu(); });
  auto second = run.compile([&](const Tensor& h) { return (h * b).sum(); });
  for (int i = 0; i < 5; ++i) {
    second(first(row({1, float(i) - 1})) * 2).backward();
    run.log(a.detach(), b.detach(), a.grad().defined());
  }
}

TENON_PROGRAM(HooksComeAndGo, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return x * w; });
  for (int i = 0; i < 8; ++i) {
    w.set_grad({});
    Tensor y = f(row({1, float(i)})), z = y * y;
    if (i % 3 == 0) autograd::register_hook(y, [i](const Tensor& g) { return g * float(i); });
    if (i % 3 == 1) autograd::register_hook(z, [&](const Tensor& g) { run.log("seen", g); });
    z.sum().backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(TapesAndSizesTakeTurns, 8) {
  Tensor w = full({3, 2}, 0.5).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return x.matmul(w); });
  for (int i = 0; i < 12; ++i) {
    Tensor y = f(ones({1 + i % 4, 3}) * float(i));
    Tensor loss = i % 3 == 0 ? y.sum() : i % 3 == 1 ? y.relu().mean() : (y * y).sum() * 0.125;
    loss.backward();  // gradients add up
    run.log(w.grad());
    if (i % 5 == 4) w.set_grad({});
  }
}

TENON_PROGRAM(AnErrorInAHookAndOn, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return (x * w).relu(); });
  for (int i = 0; i < 4; ++i) {
    w.set_grad({});
    Tensor y = f(row({1, float(i)}));
    autograd::register_hook(y, [i](const Tensor&) {
      if (i == 2) throw std::runtime_error("no");
    });
    run.log_error([&] { y.sum().backward(); });
    run.log(w.grad().defined());
  }
}

TENON_PROGRAM(AWholeStepInPieces, 8) {
  Tensor w = full({2, 2}, 0.5).requires_grad_(), v = row({0.25, 1}).requires_grad_();
  optim::SGD optimizer({w, v}, {.lr = 0.125, .momentum = 0.5});
  optim::StepInBackward in_backward(optimizer);
  auto loss = run.compile([&](const Tensor& x) {
    Tensor h = x.matmul(w).relu();
    if (h.sum().item<float>() > 4) h = h * 0.5;  // the graph breaks
    return (h * v).sum() * 0.25;
  });
  for (int i = 0; i < 5; ++i) {
    loss(ones({1 + i % 3, 2})).backward();
    run.log(w.detach(), v.detach(), w.grad().defined());
    if (i == 2) optimizer.lr *= 0.5;
  }
}

}  // namespace
}  // namespace tenon::programs
