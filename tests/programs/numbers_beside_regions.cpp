// Numbers and sizes that change in bodies whose runs are recorded each time: beside control flow and
// checkpoints, and where a tensor comes to need a gradient. They become symbols all the same.
#include "program.h"

#include <tenon/control_flow.h>

namespace tenon::programs {
namespace {

Tensor rows(int64_t n) { return arange(4 * n, Dtype::f32).reshape({n, 4}) * 0.125 - 1.0; }

Tensor chosen(const Tensor& x) {
  return cond(
      x.sum() > 0.0, [](const Tensor& t) { return t * 2.0; },
      [](const Tensor& t) { return t * 0.5; }, x);
}

TENON_PROGRAM(AFactorBesideAChoice, 2) {
  double k = 0;
  auto f = run.compile([&](const Tensor& x) { return chosen(x) * k; });
  for (int i = 0; i < 30; ++i) {
    k = 0.5 + i;
    run.log(f(rows(3) + (i % 3)));
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AFactorBesideAChoice, 2);

TENON_PROGRAM(APlaceBesideAChoice, 4) {
  int64_t first = 0;
  auto f = run.compile([&](const Tensor& x) { return chosen(x).narrow(0, first, 2) * first; });
  for (int i = 0; i < 30; ++i) {
    first = 1 + (3 * i) % 7;
    run.log(f(rows(9)));
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(APlaceBesideAChoice, 4);

TENON_PROGRAM(ACapturedTableGrowsBesideAChoice, 4) {
  Tensor table;
  auto f = run.compile([&](const Tensor& x) { return chosen(x).sum(0) + table * 2.0; });
  for (int i = 0; i < 20; ++i) {
    table = rows(2 + i % 7);
    run.log(f(rows(3)));
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(ACapturedTableGrowsBesideAChoice, 4);

TENON_PROGRAM(BatchesBesideAChoice, 6) {
  double k = 0;
  auto f = run.compile([&](const Tensor& x, int64_t n) { return chosen(x) * k + n; });
  for (int i = 0; i < 30; ++i) {
    k = 0.25 * (i % 8);
    run.log(f(rows(2 + i % 6), i / 2));
  }
}

// Stopped and started again, so that the rest needs a gradient of its own.
TENON_PROGRAM(AStartOfGradientsWithOtherNumbers, 8) {
  double k = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = (x * k).detach();
    y.requires_grad_();
    return (y * 2.0).detach() * k;
  });
  for (int i = 0; i < 24; ++i) {
    k = 0.5 + i;
    run.log(f(rows(3)));
  }
}

TENON_PROGRAM(ACheckpointWithOtherNumbers, 4) {
  Tensor w = full({4}, 0.5).requires_grad_();
  double k = 0;
  auto f = run.compile([&](const Tensor& x) {
    auto region = [](const std::vector<Tensor>& in) { return std::vector{in[0] * in[0] * 0.5}; };
    Tensor y = autograd::checkpoint(region, {x * w})[0];
    return (y * k).sum();
  });
  for (int i = 0; i < 20; ++i) {
    k = 0.5 + i;
    Tensor loss = f(rows(3));
    loss.backward();
    run.log(loss, w.grad());
    w.set_grad({});
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(ACheckpointWithOtherNumbers, 4);

TENON_PROGRAM(NumbersBehindCoursesThatTakeTurns, 10) {
  int i = 0;
  Tensor base = rows(40);
  auto f = run.compile([&](const Tensor& x) {
    Tensor m = chosen(x);
    if (i % 2) m = m.relu();
    if (i % 3) m = m + base.narrow(0, i, 3);
    return m * (1.0 / (1 << i % 16));
  });
  for (i = 0; i < 36; ++i) run.log(f(rows(3)));
}
TENON_PROGRAM_IN_ONE_GRAPH(NumbersBehindCoursesThatTakeTurns, 10);

// One course has the number 2, another one 4, and uses what it gets in one branch only.
TENON_PROGRAM(ABranchOfANumberThatBecameASymbol, 6) {
  Tensor base = rows(4);
  auto f = run.compile([&](const Tensor& x, bool small) {
    Tensor b = base.narrow(0, 0, small ? 2 : 4);
    if (small) return b.sum() + x.sum();
    return cond(
        x.sum() > 0.0, [&](const Tensor& t) { return (t + b).sum(); },
        [](const Tensor& t) { return t.sum(); }, x);
  });
  for (int i = 0; i < 8; ++i) run.log(f(rows(4) - (i % 3), i % 2 == 0));
}

}  // namespace
}  // namespace tenon::programs
