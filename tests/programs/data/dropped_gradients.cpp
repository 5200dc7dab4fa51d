// A step drops gradients, and an operation fails on the data: what was dropped before it is gone, and
// what was to be dropped later stays. Also where the step is one graph.
#include "program.h"

namespace tenon::programs {
namespace {

Tensor weights() { return full({6, 4}, 0.5).requires_grad_(); }

// Two good batches, one with a label too many, one good one. A plain pass shows what was left.
template <class F>
void train(Run& run, const std::vector<Tensor>& parameters, F step) {
  auto log_gradients = [&] {
    for (const Tensor& p : parameters) {
      Tensor gradient = p.grad();
      run.log(gradient.defined() ? gradient : zeros({}), gradient.defined());
    }
  };
  for (int i = 0; i < 4; ++i) {
    Tensor labels = i == 2 ? tensor({1, 5}) : tensor({i, 1});
    run.log_error([&] { step(halves({2, 6}, i), labels); });
    log_gradients();
    for (const Tensor& p : parameters) (p * 0.5).sum().backward();
    log_gradients();
  }
}

TENON_PROGRAM(AtItsBegin, 3) {
  Tensor w = weights();
  auto f = run.compile([&](const Tensor& x, const Tensor& labels) {
    w.set_grad({});
    Tensor picked = x.matmul(w).gather(1, labels.unsqueeze(1));
    picked.sum().backward();
    return picked.detach();
  });
  train(run, {w}, f);
}
TENON_PROGRAM_IN_ONE_GRAPH(AtItsBegin, 3);

TENON_PROGRAM(BetweenTheForwardAndTheBackward, 3) {
  Tensor w = weights();
  auto f = run.compile(
      [&](const Tensor& x, const Tensor& labels) {
        Tensor picked = x.matmul(w).gather(1, labels.unsqueeze(1));
        w.set_grad({});
        picked.sum().backward();
        return picked.detach();
      },
      {.fullgraph = true});  // else the body drops it before the operation runs
  train(run, {w}, f);
}

TENON_PROGRAM(ByAnOptimiserThatHasStepped, 4) {
  Tensor w = weights(), b = zeros({4}).requires_grad_(), mean = zeros({4});
  optim::SGD opt({w, b}, {.lr = 0.5, .momentum = 0.5});
  auto f = run.compile([&](const Tensor& x, const Tensor& labels) {
    mean.mul_(0.5);
    Tensor scores = x.matmul(w) + b + mean * 0.0;
    opt.zero_grad();
    Tensor picked = scores.gather(1, labels.unsqueeze(1));
    picked.sum().backward();
    opt.step();
    return picked.detach();
  });
  train(run, {w, b}, f);
}
TENON_PROGRAM_IN_ONE_GRAPH(ByAnOptimiserThatHasStepped, 4);

TENON_PROGRAM(ReplacedByOneOfTheProgram, 3) {
  Tensor w = weights(), given = ones({6, 4});
  auto f = run.compile([&](const Tensor& x, const Tensor& labels) {
    w.set_grad(given);
    return (x.matmul(w).gather(1, labels.unsqueeze(1)) * 2.0).detach();
  });
  train(run, {w}, f);
}
TENON_PROGRAM_IN_ONE_GRAPH(ReplacedByOneOfTheProgram, 3);

}  // namespace
}  // namespace tenon::programs
