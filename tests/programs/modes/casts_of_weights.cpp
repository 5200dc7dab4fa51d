// A weight that is used twice under autocast is cast once, in a recorded body as in a plain run: its
// gradients add up in the shorter type.
#include "program.h"

#include <tenon/autocast.h>
#include <tenon/compiled_autograd.h>
#include <tenon/nn.h>

namespace tenon::programs {
namespace {

Tensor thirds(std::vector<int64_t> sizes, int i = 0) { return (halves(sizes, i) + 0.25) / 3.0; }

// Where a processor has no instructions for products in bf16, fused code keeps more digits.
Options with_each_result_rounded(const Run& run) {
  Options out;
  if (run.backend() == "inductor") out.options = {{"emulate_precision_casts", "true"}};
  return out;
}

// Backends that fuse add up in the wider type: they are left out, and so are compiled passes.
Options where_sums_are_rounded(const Run& run) {
  return {.disable = run.backend() != "eager" && run.backend() != "aot_eager"};
}

void log_steps(Run& run, const std::function<Tensor(const Tensor& x, const Tensor& w)>& loss) {
  auto as_they_are = compiled_autograd::disable();
  for (bool keeps : {true, false}) {
    Tensor w = thirds({4, 4}, 1).requires_grad_();
    auto f = run.compile(
        [&](const Tensor& x) {
          AutocastGuard autocast({.cache_enabled = keeps});
          return loss(x, w);
        },
        where_sums_are_rounded(run));
    for (int i = 0; i < 4; ++i) {
      w.set_grad({});
      f(thirds({2, 4}, i)).to(Dtype::f32).square().sum().backward();
      run.log(w.grad());
      NoGradGuard off;
      w.sub_(w.grad() * 0.125);
    }
  }
}

TENON_PROGRAM(AWeightIsUsedTwice, 4) {
  log_steps(run, [](const Tensor& x, const Tensor& w) { return x.matmul(w).sin().matmul(w); });
}

TENON_PROGRAM(AWeightIsUsedOnBothSidesOfABreak, 8) {
  log_steps(run, [](const Tensor& x, const Tensor& w) {
    Tensor y = x.matmul(w).sin();
    graph_break("here");
    return y.matmul(w);
  });
}

TENON_PROGRAM(AnActivationIsWrittenInBetween, 4) {
  log_steps(run, [](const Tensor& x, const Tensor& w) { return x.matmul(w).relu_().matmul(w); });
}

// What is written is no part of the weight: a counter, and memory that the body has made.
TENON_PROGRAM(OtherTensorsAreWrittenInBetween, 4) {
  Tensor count = zeros({});
  log_steps(run, [&](const Tensor& x, const Tensor& w) {
    Tensor y = x.matmul(w).sin();
    count.add_(1.0);
    Tensor sums = zeros({4});
    sums.add_(1.0).select(0, 1).mul_(2.0);
    return (y + sums.to(y.dtype())).matmul(w);
  });
}

TENON_PROGRAM(StatisticsAreWrittenInBetween, 4) {
  nn::BatchNorm1d norm(4);
  log_steps(run, [&](const Tensor& x, const Tensor& w) { return norm(x.matmul(w)).matmul(w); });
}

// Through a view of the captured weight, and through one of an argument.
TENON_PROGRAM(AViewOfTheWeightIsWrittenInBetween, 8) {
  Tensor w = thirds({4, 4}, 1).requires_grad_();
  auto f = run.compile(
      [&](const Tensor& x, const Tensor& v) {
        AutocastGuard autocast;
        Tensor y = x.matmul(w).sin().matmul(v);
        {
          NoGradGuard off;
          w.select(0, 1).mul_(0.5);
          v.view({-1}).add_(0.125);
        }
        return y.detach().matmul(w) + y.detach().sin().matmul(v);
      },
      where_sums_are_rounded(run));
  Tensor v = thirds({4, 4}, 2).requires_grad_();
  for (int i = 0; i < 4; ++i) {
    run.log(f(thirds({2, 4}, i), v).to(Dtype::f32));
    run.log(w, v);
  }
}

// The guard is around the call, and the cast goes with the body.
TENON_PROGRAM(TheGuardIsAroundTheCall, 2) {
  auto as_they_are = compiled_autograd::disable();
  Tensor w = thirds({4, 4}, 1).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return x.matmul(w).sin().matmul(w); },
                       where_sums_are_rounded(run));
  for (int i = 0; i < 4; ++i) {
    w.set_grad({});
    Tensor y;
    {
      AutocastGuard autocast;
      y = f(thirds({2, 4}, i));
    }
    y.to(Dtype::f32).square().sum().backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(AWeightIsWrittenInBetween, 4) {
  Tensor w = thirds({4, 4}, 1).requires_grad_();
  auto f = run.compile(
      [&](const Tensor& x) {
        AutocastGuard autocast;
        Tensor y;
        {
          NoGradGuard off;
          y = x.matmul(w).sin();
          w.mul_(0.5);
        }
        Tensor z = y.matmul(w);
        w.detach().add_(0.125);
        return z.sin().matmul(w);
      },
      with_each_result_rounded(run));
  for (int i = 0; i < 4; ++i) {
    Tensor y = f(thirds({2, 4}, i)).to(Dtype::f32);
    run.log(y, w);
  }
}

// Each branch has a graph of its own.
TENON_PROGRAM(BranchesUseAWeight, 6) {
  Tensor w = thirds({4, 4}, 1).requires_grad_();
  auto f = run.compile(
      [&](const Tensor& x) {
        AutocastGuard autocast;
        Tensor y = cond(
            x.sum() > 0, [](const Tensor& a, const Tensor& b) { return a.matmul(b); },
            [](const Tensor& a, const Tensor& b) { return a.sin().matmul(b); }, x, w);
        return y.sin().matmul(w).to(Dtype::f32);
      },
      with_each_result_rounded(run));
  for (int i = 0; i < 4; ++i) run.log(f(thirds({2, 4}, i)));
}

}  // namespace
}  // namespace tenon::programs
