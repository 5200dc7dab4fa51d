// Steps whose control flow uses weights that the bodies of the branches and loops capture.
#include "../program.h"

#include <tenon/control_flow.h>

namespace tenon::programs {
namespace {

Tensor weight() { return (arange(3, Dtype::f32) * 0.5 + 1.0).requires_grad_(); }
Tensor sign_of(int i) { return ones({2, 3}) * (i % 3 == 0 ? -0.5 : 0.5); }

TENON_PROGRAM(BranchesUseAWeight, 4) {
  Tensor w = weight();
  optim::SGD opt({w}, {.lr = 0.125});
  auto f = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor y = cond(
        x.sum() > 0, [&](const Tensor& v) { return v * w; }, [&](const Tensor& v) { return v - w; },
        x);
    Tensor loss = y.sum();
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i) run.log(f(sign_of(i)), w, w.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(BranchesUseAWeight, 2);

TENON_PROGRAM(ALoopOverRowsUsesAWeight, 6) {
  Tensor w = weight();
  optim::SGD opt({w}, {.lr = 0.125, .momentum = 0.5});
  auto f = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor loss = map([&](const Tensor& v) { return v * w; }, x).square().sum() * 0.125;
    loss.backward();
    optim::clip_grad_value_({w}, 0.5);
    opt.step();
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i) run.log(f(ones({2 + i % 2, 3})), w);
}
TENON_PROGRAM_IN_ONE_GRAPH(ALoopOverRowsUsesAWeight, 3);

TENON_PROGRAM(AScanUsesALayer, 6) {
  nn::Linear layer(3, 3);
  {
    NoGradGuard off;
    layer.weight.copy_(eye(3) * 0.5);
    layer.bias.zero_();
  }
  optim::SGD opt(layer.parameters(), {.lr = 0.125});
  auto f = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    auto [last, all] = scan(
        [&](const Tensor& h, const Tensor& v) {
          Tensor next = (layer(h) + v).relu();
          return std::pair(next, next * 0.5);
        },
        zeros({3}), x);
    Tensor loss = all.sum() + last.sum() * 0.25;
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (int i = 0; i < 4; ++i) run.log(f(ones({2, 3}) * 0.25), layer.weight, layer.bias);
}
TENON_PROGRAM_IN_ONE_GRAPH(AScanUsesALayer, 3);

TENON_PROGRAM(GradientsOfAWeightThatABranchUses, 6) {
  Tensor w = weight();
  bool adds_up = false;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = cond(
        x.sum() > 0, [&](const Tensor& v) { return v * w; },
        [&](const Tensor& v) { return v - w * w; }, x);
    if (!adds_up) return autograd::grad({y.sum()}, {w})[0];
    autograd::backward({y.sum()}, {}, {w});
    return w.grad() * 2.0;
  });
  for (int i = 0; i < 8; ++i) {
    adds_up = i % 4 > 1;
    run.log(f(sign_of(i)));
    if (w.grad().defined()) run.log(w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(GradientsOfAWeightThatABranchUses, 4);

TENON_PROGRAM(AWeightInABranchIsReplacedAndFrozen, 8) {
  Tensor w = weight(), b = zeros({3}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    b.set_grad({});
    w.set_grad({});
    Tensor y = cond(
        x.sum() > 0, [&](const Tensor& v) { return v * w + b; },
        [&](const Tensor& v) { return v - b * w; }, x);
    y.square().sum().backward();
    return w.grad().defined();
  });
  for (int i = 0; i < 8; ++i) {
    if (i == 3) w = weight();
    if (i == 5) w = weight().detach();
    run.log(f(sign_of(i + 1)), b.grad());
    if (w.grad().defined()) run.log(w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AWeightInABranchIsReplacedAndFrozen, 8);

TENON_PROGRAM(ABodyAsksForLeaves, 12) {
  Tensor w = weight();
  auto f = run.compile([&](const Tensor& x) {
    Tensor made = x * w;
    auto told = [&](const Tensor& t) {
      int n = t.is_leaf() + 2 * w.is_leaf() + 4 * made.is_leaf() + 8 * (t * w).is_leaf();
      return t * n + made * 0.0;
    };
    Tensor y = cond(
        x.sum() > 0, told, [](const Tensor& t) { return t - 1; }, x);
    Tensor z = cond(
        x.sum() > 0, told, [](const Tensor& t) { return t - 2; }, made);
    Tensor rows = map([&](const Tensor& row) { return row * (1 + row.is_leaf()) + w; }, made);
    Tensor inner = map(
        [&](const Tensor& row) {
          return cond(
              row.sum() > 0, [&](const Tensor& t) { return t * (made.is_leaf() ? 2 : 3); },
              [](const Tensor& t) { return t; }, row);
        },
        x);
    return std::tuple(y, z, rows, inner);
  });
  for (int i = 0; i < 6; ++i) {
    auto [y, z, rows, inner] = f(sign_of(i));
    run.log(y, z, rows, inner);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(ABodyAsksForLeaves, 2);

// Each result needs a gradient for itself, in all iterations or in none.
TENON_PROGRAM(SomeResultsNeedGradients, 12) {
  Tensor w = weight();
  auto f = run.compile([&](const Tensor& x) {
    auto [scaled, shares] = map([&](const Tensor& v) { return std::pair(v * w, v.softmax(0)); }, x);
    auto [last, all] =
        scan([&](const Tensor& h, const Tensor& v) { return std::pair(h * w, h.detach() * v); },
             ones({3}), x);
    bool taken = shares.sum().item<float>() > 2.5;
    if (all.requires_grad()) all.sum().backward();
    return std::tuple(taken ? shares * 2 : shares, scaled, last, all);
  });
  for (int i = 0; i < 6; ++i) {
    auto [shares, scaled, last, all] = f(ones({2 + i % 2, 3}));
    run.log(shares, scaled, last, all, shares.requires_grad(), all.requires_grad());
    (scaled.sum() + last.sum()).backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(OnlyOneBranchNeedsAGradient, 6) {
  Tensor w = weight();
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = cond(
        x.sum() > 0, [&](const Tensor& v) { return v * w; }, [](const Tensor& v) { return v * 2; },
        x);
    return y.sum().item<float>() > 4 ? y : y * 2;
  });
  for (int i = 0; i < 6; ++i) {
    Tensor y = f(sign_of(i));
    run.log(y);
    if (i % 3 == 0) continue;
    y.sum().backward();
    run.log(w.grad());
  }
}

// Its result needs a gradient in all calls; the weight gets one where the loop has run.
TENON_PROGRAM(ALoopThatMayNotRun, 6) {
  Tensor w = weight();
  auto f = run.compile([&](const Tensor& x, const Tensor& n) {
    auto [y, k] =
        while_loop([&](const Tensor&, const Tensor& i) { return i < n; },
                   [&](const Tensor& t, const Tensor& i) { return std::pair(t * w, i + 1); }, x,
                   zeros({}, Dtype::i64));
    if (y.requires_grad()) y.sum().backward();
    return y.detach();
  });
  for (int64_t i = 0; i < 6; ++i) {
    w.set_grad({});
    Tensor y = f(ones({3}), tensor(i % 3));
    run.log(y, w.grad().defined());
    if (w.grad().defined()) run.log(w.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
