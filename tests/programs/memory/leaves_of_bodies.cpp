// Leaves that a body makes for itself, and gradients that it asks for: attacks, samplers, inner loops.
// Later calls follow the body, and what each turn has needed goes with it.
#include "program.h"

namespace tenon::programs {
namespace {

TENON_PROGRAM(AnInnerLoopByGrad, 7) {
  auto f = run.compile([](const Tensor& x) {
    Tensor w = x.clone().requires_grad_();
    for (int turn = 0; turn < 4; ++turn) {
      Tensor loss = (w * w * w).sum();
      Tensor g = autograd::grad({loss}, {w})[0];
      w = (w - g * 0.125).detach().requires_grad_();
      if (loss.item<double>() < 0.01) break;
    }
    return w.detach();
  });
  for (int i = 0; i < 6; ++i) run.log(f(row({1, 0.25f * float(i)})));
  run.log(f.is_followed());
}

TENON_PROGRAM(AnInnerLoopByBackward, 7) {
  auto f = run.compile([](const Tensor& x) {
    Tensor w = x.clone().requires_grad_();
    for (int turn = 0; turn < 4; ++turn) {
      Tensor loss = (w * w).sum();
      loss.backward();
      {
        NoGradGuard off;
        w.sub_(w.grad() * 0.25);
      }
      w.set_grad({});
    }
    return std::tuple(w.detach(), w.requires_grad(), w.is_leaf());
  });
  for (int i = 0; i < 6; ++i) {
    auto [w, needs_grad, is_leaf] = f(row({1, float(i)}));
    run.log(w, needs_grad, is_leaf);
  }
  run.log(f.is_followed());
}

TENON_PROGRAM(AnArgumentIsMadeALeafInUncompiledCode, 6) {
  auto f = run.compile([](const Tensor& x) {
    {
      NoCompile here;
      x.requires_grad_();
    }
    return (x * x).sum();
  });
  for (int i = 0; i < 3; ++i) {
    Tensor x = row({1, float(i)});
    Tensor loss = f(x);
    loss.backward();
    run.log(loss, loss.requires_grad(), x.requires_grad());
    run.log(x.grad());
  }
}

TENON_PROGRAM(ANeedComesAndGoes, 9) {
  auto f = run.compile([](const Tensor& x, const Tensor& w, int n) {
    Tensor h = x * 2.0;
    if (n % 2) h.requires_grad_();
    Tensor row_of_h = h.select(0, 0);
    Tensor y = (h * w).sum() + row_of_h.sum();
    bool needs_grad = y.requires_grad();
    if (needs_grad) y.backward();
    Tensor g = h.grad().defined() ? h.grad() * 1.0 : h;
    h.requires_grad_(false);
    return std::tuple(g, needs_grad, (h + 1.0).requires_grad(), row_of_h.requires_grad());
  });
  for (int i = 0; i < 8; ++i) {
    auto [g, needs_grad, after, of_view] = f(halves({2, 2}, i), halves({2, 2}, 1), i);
    run.log(g, needs_grad, after, of_view);
  }
  run.log(f.is_followed());
}

TENON_PROGRAM(ALeafIsKeptAndReturned, 12) {
  Tensor kept;
  auto f = run.compile([&](const Tensor& x) {
    Tensor w = (x + 1.0).requires_grad_();
    kept = w;
    (w * x).sum().backward();
    return w;
  });
  for (int i = 0; i < 4; ++i) {
    Tensor w = f(row({1, float(i)}));
    run.log(w.grad(), w.is_same(kept));
    run.log(kept.grad());
    (w * 2.0).sum().backward();
    run.log(kept.grad());
  }
}

// The second call leaves the path of the first behind the write.
TENON_PROGRAM(WhatHasNoHistoryYetNeedsNoGradient, 10) {
  Tensor w = row({1, 2}).requires_grad_();
  int calls = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor b = x * 1.0;
    if ((b * w).sum().item<float>() > 1000) b = b * 0.5;
    Tensor h = b * 2.0;
    bool needs_grad = h.requires_grad();
    b.add_(w);
    return std::pair(calls++ ? b + 1.0 : b * 3.0, needs_grad);
  });
  for (int i = 0; i < 5; ++i) {
    auto [y, needs_grad] = f(row({1, float(i)}));
    run.log(y, needs_grad);
    y.sum().backward();
    run.log(w.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
