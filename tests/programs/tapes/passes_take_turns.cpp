// Whole steps whose backward passes are not the same in each call: other roots, leaves, numbers,
// hooks and gradients from before.
#include "program.h"

#include <stdexcept>

namespace tenon::programs {
namespace {

namespace ag = tenon::autograd;

Tensor leaf(std::initializer_list<float> v) { return row(v).requires_grad_(); }

TENON_PROGRAM(LossesTakeTurns, 6) {
  Tensor w = leaf({1, 2}), v = leaf({0.5, -1});
  int i = 0;
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({}), v.set_grad({});
    Tensor first = (w * x).square().sum(), second = (v * x).relu().sum();
    (i % 3 ? first + second : second).backward();
    return (first + second).detach();
  });
  for (i = 0; i < 8; ++i) run.log(f(row({1, float(i)})), w.grad(), v.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(LossesTakeTurns, 6);

TENON_PROGRAM(GradientsAddUpAndAreUsed, 6) {
  Tensor w = leaf({1, 2});
  optim::SGD opt({w}, {.lr = 0.25, .momentum = 0.5});
  int i = 0;
  auto f = run.compile([&](const Tensor& x) {
    (w * x).square().sum().backward();
    if (i % 4 == 3) opt.step(), opt.zero_grad(i % 8 == 7);
    return x + 1.0;
  });
  for (i = 0; i < 16; ++i) run.log(f(row({0.25, 0.5})), w, w.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(GradientsAddUpAndAreUsed, 8);

TENON_PROGRAM(FactorsOfLossesChange, 6) {
  Tensor w = leaf({1, 2});
  double factor = 1, power = 2;
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({});
    (w * x).pow(power).sum().mul(factor).backward();
    return w.grad() * 1.0;
  });
  for (int i = 0; i < 8; ++i) {
    factor = 1 + i / 2;
    power = i < 5 ? 2 : 3;
    run.log(f(row({1, 0.5})), w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(FactorsOfLossesChange, 8);

TENON_PROGRAM(PassesOverPartsOfATape, 6) {
  Tensor w = leaf({1, 2}), v = leaf({0.5, -1});
  int i = 0;
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({}), v.set_grad({});
    Tensor h = w * v, loss = (h * x).sum();
    loss.backward({}, true);
    if (i % 2)
      (h.square().sum() + loss).backward();
    else
      h.sum().backward();
    return w.grad() * v.grad();
  });
  for (i = 0; i < 8; ++i) run.log(f(row({1, float(i)})), w.grad(), v.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(PassesOverPartsOfATape, 6);

TENON_PROGRAM(AFreedTapeIsAnErrorInEachCall, 6) {
  Tensor w = leaf({1, 2});
  bool twice = false;
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({});
    Tensor loss = (w * x).square().sum();
    loss.backward();
    if (twice) loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 8; ++i) {
    twice = i % 3 == 2;
    run.log_error([&] { run.log(f(row({1, float(i)}))); });
    if (!twice) run.log(w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AFreedTapeIsAnErrorInEachCall, 6);

TENON_PROGRAM(AWriteOnTheTapeComesAndGoes, 6) {
  Tensor w = leaf({1, 2});
  bool writes = false;
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({});
    Tensor h = w * x, y = h + 1.0;
    if (writes) y.mul_(2.0);
    (y * x).sum().backward();
    return w.grad() * 1.0;
  });
  for (int i = 0; i < 6; ++i) {
    writes = i % 3 == 2;
    run.log(f(row({1, float(i)})));
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AWriteOnTheTapeComesAndGoes, 6);

TENON_PROGRAM(HooksComeAndGo, 10) {
  Tensor w = leaf({1, 2});
  int n = 0, i = 0;
  std::vector<ag::HookHandle> hooks;
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({});
    (w * x).sum().backward();
    return w.grad() + 1.0;
  });
  for (i = 0; i < 9; ++i) {
    if (i == 2)
      hooks.push_back(ag::register_hook(w, [&](const Tensor& g) { return ++n, g * 2.0; }));
    if (i == 4)
      hooks.push_back(ag::register_post_accumulate_grad_hook(w, [&](const Tensor&) { ++n; }));
    if (i == 5) hooks[0].remove();
    if (i == 7) hooks[1].remove();
    run.log(f(row({1, float(i)})), w.grad(), n);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(HooksComeAndGo, 10);

TENON_PROGRAM(LeavesOfTheBodyItself, 6) {
  Tensor w = leaf({1, 2});
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({});
    Tensor own = (x * 2.0).detach().requires_grad_();
    (own * w).square().sum().backward();
    Tensor second = own.detach().requires_grad_();
    second.square().sum().backward();
    return own.grad() + second.grad();
  });
  for (int i = 0; i < 6; ++i) run.log(f(row({1, float(i)})), w.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(LeavesOfTheBodyItself, 6);

TENON_PROGRAM(LeavesThatNoPassReaches, 6) {
  Tensor w = leaf({1, 2}), v = leaf({3, 4});
  int i = 0;
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({}), v.set_grad({});
    Tensor cut = i % 2 ? (v * x).detach() : v * x;
    (w * x + cut).sum().backward();
    return x * 1.0;
  });
  for (i = 0; i < 8; ++i) run.log(f(row({1, float(i)})), w.grad(), v.grad().defined());
}
TENON_PROGRAM_IN_ONE_GRAPH(LeavesThatNoPassReaches, 6);

TENON_PROGRAM(BatchesOfAnySizeUnderAScheduler, 6) {
  Tensor w = leaf({1, 2});
  optim::AdamW opt({w}, {.lr = 0.125});
  optim::StepLR schedule(opt, 2, 0.5);
  auto f = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor loss = x.mv(w).square().mean();
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (int64_t n : {4, 4, 8, 2, 4, 1, 8, 16}) {
    run.log(f(ones({n, 2}) * 0.5), w, w.grad());
    schedule.step();
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(BatchesOfAnySizeUnderAScheduler, 6);

TENON_PROGRAM(TheLeafOfAPassTakesTurns, 6) {
  Tensor w = leaf({1, 2}), u = leaf({3, 4});
  int i = 0;
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({}), u.set_grad({});
    ag::backward({((w + u) * x).sum()}, {}, {i % 2 ? w : u});
    return x + 1.0;
  });
  for (i = 0; i < 7; ++i) run.log(f(row({1, float(i)})), w.grad(), u.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(TheLeafOfAPassTakesTurns, 6);

TENON_PROGRAM(GradientsAreDroppedEarlyOrLate, 8) {
  Tensor w = leaf({1, 2});
  bool at_start = false, at_end = true;
  auto f = run.compile([&](const Tensor& x) {
    if (at_start) w.set_grad({});
    (w * x).sum().backward();
    if (at_end) w.set_grad({});
    return x + 1.0;
  });
  for (int i = 0; i < 12; ++i) {
    at_start = i % 4 == 1 || i % 4 == 2;
    at_end = i % 3 != 1;
    run.log(f(row({1, 2})), w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(GradientsAreDroppedEarlyOrLate, 8);

TENON_PROGRAM(ResultsNeedGradientsNowAndThen, 6) {
  Tensor w = leaf({1, 2});
  int i = 0;
  auto f = run.compile([&](const Tensor& x) {
    (w * x).sum().backward();
    EnableGradGuard on(i % 2 == 0);
    return w * x;
  });
  for (i = 0; i < 6; ++i) {
    Tensor y = f(row({1, 2}));
    run.log(y.requires_grad(), y.detach(), w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(ResultsNeedGradientsNowAndThen, 6);

TENON_PROGRAM(AStepThatWritesAWeightBeforeItsPass, 8) {
  Tensor w = leaf({1, 2});
  bool writes = false, passes = true;
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({});
    if (writes) {
      NoGradGuard off;
      w.mul_(0.5);
    }
    Tensor loss = (x * w * w).sum();
    if (passes) loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 8; ++i) {
    writes = i % 4 == 1 || i % 4 == 2;
    passes = i % 4 != 1;
    run.log(f(row({1, 2})), w, w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AStepThatWritesAWeightBeforeItsPass, 8);

// What the forward was computed in decides, however the pass is called.
TENON_PROGRAM(ThePassIsUnderAutocast, 8) {
  Tensor w = ((arange(64) % 7 - 3) * 0.25).reshape({8, 8}).requires_grad_();
  auto f =
      run.compile([&](const Tensor& x) { return x.matmul(w).tanh().matmul(w).square().mean(); });
  for (int i = 0; i < 8; ++i) {
    Tensor loss;
    {
      AutocastGuard lower({.enabled = i % 2 == 1});
      loss = f(((arange(16) + i) % 7 - 3).reshape({2, 8}).to(Dtype::f32) * 0.25);
    }
    w.set_grad({});
    AutocastGuard lower({.enabled = i % 4 > 1});
    loss.backward();
    run.log(w.grad().dtype() == Dtype::f32, (w.grad().abs().max() * 4.0).round());
  }
}

// The derivative of a norm reads the norm, as it is: no pass writes it.
TENON_PROGRAM(TwoPassesOverANorm, 8) {
  Tensor w = halves({3, 4}).requires_grad_();
  auto f = run.compile([&](const Tensor& x, double p) {
    w.set_grad({});
    Tensor norm = x.matmul(w).norm(p);
    norm.backward({}, true);
    (norm * 0.5).backward();
    return norm.detach();
  });
  for (int i = 0; i < 6; ++i) run.log(f(halves({2, 3}, i), i % 2 + 2.0), w.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(TwoPassesOverANorm, 8);

}  // namespace
}  // namespace tenon::programs
