// Operations whose results are as large as the data say, between segments: what follows them is
// compiled for every size.
#include "program.h"

namespace tenon::programs {
namespace {

Tensor below(int n) { return arange(20) < n; }

TENON_PROGRAM(EachCallSelectsAnotherNumber, 4) {
  auto f = run.compile([](const Tensor& x, const Tensor& m) { return x.masked_select(m) * 2.0; });
  for (int i : {5, 7, 0, 1, 20, 3, 7, 12, 4, 9}) run.log(f(arange(20, Dtype::f32), below(i)));
}

TENON_PROGRAM(AThresholdChanges, 8) {
  double threshold = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * 0.5;
    Tensor above = y.masked_select(y > threshold);
    Tensor where = (y > threshold).nonzero();
    return (above * 2.0 + where.select(1, 0)).sum() + threshold;
  });
  for (int i = 0; i < 20; ++i) {
    threshold = i * 0.5;
    run.log(f(arange(20, Dtype::f32)));
  }
}

TENON_PROGRAM(SelectedValuesAreTrained, 12) {
  Tensor w = ones({20}).requires_grad_();
  optim::SGD opt({w}, {.lr = 0.125});
  int kept = 0;
  auto f = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor chosen = (x * w).masked_select(below(kept));
    Tensor loss = chosen.square().sum() * 0.125;
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (int i = 0; i < 9; ++i) {
    kept = i * 2 % 7;
    run.log(f(arange(20, Dtype::f32) * 0.125), w);
  }
}

TENON_PROGRAM(SelectionsInALoop, 12) {
  int turns = 3;
  auto f = run.compile([&](Tensor x) {
    for (int t = 0; t < turns; ++t) x = x.masked_select(x > 1.0) - 0.5;
    return x;
  });
  for (int i = 0; i < 8; ++i) {
    turns = 1 + i % 4;
    run.log(f(arange(3 + i, Dtype::f32)));
  }
}

TENON_PROGRAM(DuplicatesAreCountedAndKept, 8) {
  std::vector<Tensor> kept;
  auto f = run.compile([&](const Tensor& x) {
    auto [values, places, counts] = _unique2(x, true, true, true);
    kept.push_back(values + 1);
    return counts.index_select(0, places) * 2;
  });
  for (int i = 2; i < 9; ++i) {
    run.log(f(arange(8) % i));
    run.log(kept.back(), kept.front());
  }
}

TENON_PROGRAM(AnIndexFromASelectionFails, 6) {
  Tensor sum = zeros({});
  auto f = run.compile([&](const Tensor& x, const Tensor& table) {
    sum.add_(x.sum());
    Tensor where = (x > 2.0).nonzero().select(1, 0);
    return table.index_select(0, where) * 2.0;
  });
  for (int rows : {8, 8, 2, 8, 9})
    run.log_error([&] { run.log(f(arange(6, Dtype::f32), ones({rows}))); });
  run.log(sum);
}

TENON_PROGRAM(SelectionsAreWritten, 6) {
  Tensor state = zeros({20});
  auto f = run.compile([&](const Tensor& x, const Tensor& m) {
    Tensor chosen = x.masked_select(m);
    chosen.mul_(2.0);
    state.masked_fill_(m, 0.5);
    chosen.add_(state.sum());
    return chosen;
  });
  for (int i : {5, 7, 0, 1, 20}) run.log(f(arange(20, Dtype::f32), below(i)), state);
}

// What a mask chooses is computed from, and the gradient is as large as what it has chosen.
TENON_PROGRAM(GradientsThroughAMask, 24) {
  auto differentiate = [&](auto reduce) {
    auto f = run.compile([=](const Tensor& x) { return reduce(x[x > 0.5]); });
    for (int i : {3, 6, 1, 9}) {
      Tensor x = (arange(i, Dtype::f32) * 0.25).requires_grad_();
      f(x).backward();
      run.log((x.grad() * 1024).round());  // not all of them are dyadic fractions
    }
  };
  differentiate([](const Tensor& chosen) { return chosen.square().sum(); });
  differentiate([](const Tensor& chosen) { return (chosen * chosen).sum(); });
  differentiate([](const Tensor& chosen) { return chosen.exp().sum() + chosen.relu().sum(); });
  differentiate([](const Tensor& chosen) { return chosen.softmax(0).square().sum(); });
}
TENON_PROGRAM_IN_ONE_GRAPH(GradientsThroughAMask, 24);

}  // namespace
}  // namespace tenon::programs
