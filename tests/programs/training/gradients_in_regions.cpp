// Bodies of control flow that end gradients, draw numbers, take sizes of the data or numbers of the
// caller: values and gradients are those of a plain run.
#include "program.h"

#include <tenon/control_flow.h>

namespace tenon::programs {
namespace {

Tensor rows(int64_t n) { return arange(4 * n, Dtype::f32).reshape({n, 4}) * 0.25 - 1.0; }

TENON_PROGRAM(DetachInABody, 8) {
  Tensor w = full({4}, 0.5).requires_grad_();
  auto ends = [](const Tensor& t) { return t * t.detach() + (t.round() - t).detach(); };
  auto f = run.compile([&](const Tensor& x, int kind) {
    Tensor y = x * w;
    if (kind == 0)
      return cond(
                 y.sum() > 0.0, ends, [](const Tensor& t) { return t * 3.0; }, y)
          .sum();
    if (kind == 1) return map(ends, y).sum();
    auto step = [&](const Tensor& carry, const Tensor& t) {
      return std::pair(carry.detach() * 0.5 + t, ends(t) * carry);
    };
    auto [last, all] = scan(step, zeros({4}), y);
    return last.sum() + all.sum();
  });
  for (int i = 0; i < 9; ++i) {
    w.set_grad({});
    Tensor loss = f(rows(2 + i % 3) + (i % 2), i % 3);
    loss.backward();
    run.log(loss, w.grad());
  }
}

TENON_PROGRAM(NoGradientsInABody, 6) {
  Tensor w = full({4}, 0.5).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    auto half = [](const Tensor& t) {
      Tensor scale;
      {
        NoGradGuard no_grad;
        scale = t * t * 2.0;
      }
      return t * scale + t * t * 2.0;  // equal operations, of which one has no gradient
    };
    return map(half, x * w).sum();
  });
  for (int i = 0; i < 4; ++i) {
    w.set_grad({});
    Tensor loss = f(rows(3) + i);
    loss.backward();
    run.log(loss, w.grad());
  }
}

TENON_PROGRAM(SecondDerivativesOfAnEndInABody, 6) {
  auto f = run.compile([](const Tensor& x) {
    auto body = [](const Tensor& t) { return t * t * t.detach(); };
    return cond(
               x.sum() > 0.0, body, [](const Tensor& t) { return t * t; }, x)
        .sum();
  });
  for (int i = 0; i < 3; ++i) {
    Tensor x = (rows(1) + (2.0 * i)).requires_grad_();
    Tensor g = autograd::grad({f(x)}, {x}, {.create_graph = true})[0];
    run.log(g, autograd::grad({g.sum()}, {x})[0]);
  }
}

// What is dropped in the forward has no gradient.
TENON_PROGRAM(ADropoutInABody, 8) {
  auto f = run.compile([](const Tensor& x, bool maps) {
    auto drop = [](const Tensor& t) { return dropout(t, 0.5, true); };
    return maps ? map(drop, x)
                : cond(
                      x.sum() > 0.0, drop, [](const Tensor& t) { return t * 1.0; }, x);
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = ones({4, 8}).requires_grad_();
    Tensor y = f(x, i % 2 == 0);
    y.sum().backward();
    run.log((y.detach() - x.grad()).abs().sum());
  }
}

TENON_PROGRAM(SizesOfTheDataGoIntoABody, 10) {
  auto f = run.compile([](const Tensor& x) {
    Tensor part = cond(
        x.sum() > 0.0, [](const Tensor& t) { return t.slice(0, 0, 1); },
        [](const Tensor& t) { return t.slice(0, 0, 2); }, x);
    Tensor next = cond(
        x.sum() > -9.0, [](const Tensor& t) { return t * 2.0; },
        [](const Tensor& t) { return t + 1.0; }, part);
    Tensor shifted = map([&](const Tensor& t) { return t + part.sum(); }, next);
    return std::pair(next, shifted);
  });
  for (int i = 0; i < 6; ++i) {
    auto [next, shifted] = f(rows(3) - i);
    run.log(next, shifted);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(SizesOfTheDataGoIntoABody, 10);

TENON_PROGRAM(NumbersOfTheCallerInABody, 4) {
  auto f = run.compile([](const Tensor& x, SymInt n, SymFloat k) {
    auto scaled = [&](const Tensor& t) { return t * n + k; };
    return map(scaled, x) + cond(
                                n > 1, scaled, [&](const Tensor& t) { return t * k; }, x);
  });
  for (int i = 0; i < 12; ++i) run.log(f(rows(2), 2 + i, 0.5 * i));
}

// What nobody used of it has no gradient, so that the optimiser leaves its weight alone.
TENON_PROGRAM(ARegionThatTheLossLeavesOut, 12) {
  Tensor w = full({4, 4}, 0.25).requires_grad_(), b = full({4}, 0.5).requires_grad_();
  auto f = run.compile([&](const Tensor& x, int kind) {
    Tensor h = x.matmul(w);
    auto scaled = [&](const Tensor& t) { return t * b; };
    Tensor y;
    if (kind == 0) y = map(scaled, h);
    if (kind == 1)
      y = cond(
          h.sum() > 0.0, scaled, [&](const Tensor& t) { return t + b; }, h);
    if (kind == 2) {
      auto step = [&](const Tensor& carry, const Tensor& t) { return std::pair(carry + t, t * b); };
      y = scan(step, ones({4}), h).second;
    }
    return std::pair(h.square().mean(), y);
  });
  for (int i = 0; i < 9; ++i) {
    w.set_grad({}), b.set_grad({});
    auto [loss, y] = f(ones({3, 4}), i % 3);
    if (i >= 6) loss = loss + y.mean();
    loss.backward();
    run.log(loss, y, w.grad(), b.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
