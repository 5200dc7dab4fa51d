// zero_grad(false): gradients that stay where they are, and lose the history that a pass gave them.
#include "program.h"

namespace tenon::programs {
namespace {

struct Net {
  Tensor w = tensor({1.0f, 2.0f, 3.0f}).requires_grad_();
  optim::SGD opt{{w}, {.lr = 0.125}};

  void pass_with_history() { autograd::backward({w.pow(3).sum()}, {.create_graph = true}); }
  Tensor penalty() const {
    return autograd::grad({w.grad().square().sum()}, {w}, {.retain_graph = true})[0].detach();
  }
};

TENON_PROGRAM(ZerosHaveNoHistory, 8) {
  Net net;
  auto f = run.compile([&] {
    net.opt.zero_grad(false);
    net.pass_with_history();
    return net.penalty();
  });
  for (int i = 0; i < 4; ++i) {
    Tensor penalty = f();
    run.log(penalty, net.w.grad().detach());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(ZerosHaveNoHistory, 3);

TENON_PROGRAM(WeightsMoveBehindAPassWithHistory, 8) {
  Net net;
  auto f = run.compile([&] {
    net.opt.zero_grad(false);
    net.pass_with_history();
    Tensor penalty = net.penalty();
    net.opt.step();
    return penalty;
  });
  for (int i = 0; i < 4; ++i) {
    Tensor penalty = f();
    run.log(penalty, net.w.detach());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(WeightsMoveBehindAPassWithHistory, 3);

// What a plain pass has left.
TENON_PROGRAM(AHistoryComesBetweenCalls, 8) {
  Net net;
  auto f = run.compile([&] {
    net.opt.zero_grad(false);
    net.w.square().sum().backward();
    return net.w.grad() * 2.0;
  });
  for (int i = 0; i < 6; ++i) {
    if (i % 2) net.pass_with_history();
    Tensor doubled = f(), grad = net.w.grad();
    run.log(doubled, grad, grad.requires_grad(), grad.is_leaf());
  }
}

TENON_PROGRAM(AGradientThatIsALeafNeedsNoneItself, 8) {
  Net net;
  auto f = run.compile([&] {
    net.opt.zero_grad(false);
    return net.w.detach() * 2.0;
  });
  for (int i = 0; i < 4; ++i) {
    net.w.set_grad(halves({3}, i).requires_grad_(i > 1));
    Tensor grad = net.w.grad();
    Tensor doubled = f();
    run.log(doubled, grad, grad.requires_grad(), net.w.grad().is_same(grad));
  }
}

}  // namespace
}  // namespace tenon::programs
