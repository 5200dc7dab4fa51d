// Leaves and arguments whose needs change in whole steps, whose tape is made only when somebody looks.
#include "tapes/two_layers.h"

#include <stdexcept>

namespace tenon::programs {
namespace {

TENON_PROGRAM(NeedsEndInTheMiddle, 12) {
  Tensor w = row({1, 2}).requires_grad_();
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({});
    Tensor a = x * w;
    if (++n % 3 == 0) w.requires_grad_(false);
    Tensor b = a * w;
    w.requires_grad_(true);
    b.sum().backward();
    return b.detach();
  });
  for (int i = 0; i < 7; ++i) run.log(f(row({1, 1})), w.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(NeedsEndInTheMiddle, 12);

TENON_PROGRAM(NeedsBeginBetweenPasses, 12) {
  Tensor u = row({1, 2}).requires_grad_(), v = row({3, 4}).requires_grad_();
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    u.set_grad({});
    v.set_grad({});
    (x * u * v).sum().backward();
    v.requires_grad_(++n > 2);
    Tensor loss = (x * u * v).sum();
    loss.backward();
    v.requires_grad_(true);
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i) run.log(f(row({1, 1})), u.grad(), v.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(NeedsBeginBetweenPasses, 12);

TENON_PROGRAM(ALeafOfTheBodyOnSomeCalls, 12) {
  Tensor w = row({1, 2}).requires_grad_();
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({});
    Tensor shift = zeros({2});
    if (++n % 3 == 0) shift.requires_grad_();
    ((x + shift) * w).sum().backward();
    Tensor of_shift = shift.grad();
    return of_shift.defined() ? of_shift : x * 8.0;
  });
  for (int i = 0; i < 7; ++i) run.log(f(row({1, 1})), w.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(ALeafOfTheBodyOnSomeCalls, 12);

TENON_PROGRAM(AnArgumentComesToNeedGradients, 8) {
  Net net;
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    net.zero_grad();
    Tensor y = net(x);
    if (++n % 3 == 2) x.requires_grad_();
    Tensor loss = (y + net(x)).square().sum() * 0.25;
    loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 7; ++i) {
    Tensor x = points(i);
    run.log(f(x), x.requires_grad());
    run.log(x.grad(), net.in.weight.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AnArgumentComesToNeedGradients, 8);

TENON_PROGRAM(AnArgumentNeedsGradientsOnOtherPaths, 12) {
  Tensor w = row({1, 2}).requires_grad_();
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    x.requires_grad_();
    Tensor loss = (x * w).sum();
    loss.backward();
    if (++n % 2) w.set_grad({});
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i) {
    Tensor x = row({1, 3});
    run.log(f(x), x.requires_grad(), x.grad(), w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AnArgumentNeedsGradientsOnOtherPaths, 12);

TENON_PROGRAM(AnArgumentsGradientOutlivesAnError, 8) {
  Tensor w = row({1, 2}).requires_grad_();
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({});
    Tensor loss = (x * w).sum();
    loss.backward();
    if (++n % 2) throw std::runtime_error("of the body");
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i) {
    Tensor x = row({1, float(i)}).requires_grad_();
    run.log_error([&] { run.log(f(x)); });
    run.log(x.grad(), w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AnArgumentsGradientOutlivesAnError, 8);

TENON_PROGRAM(ALeafBecomesAResult, 6) {
  Tensor base = row({1, 2}).requires_grad_(), w = row({0.5, 1}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor loss = (x * w).square().sum() * 0.25;
    loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 3; ++i) run.log(f(row({1, float(i)})), w.grad());
  for (int i = 0; i < 3; ++i) {
    w = base * 0.5;
    run.log(f(row({1, float(i)})), base.grad());
  }
  w = row({2, 1}).requires_grad_();
  for (int i = 0; i < 2; ++i) run.log(f(row({1, float(i)})), w.grad(), base.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(ALeafBecomesAResult, 6);

TENON_PROGRAM(LeavesOfTheBody, 6) {
  Net net;
  auto f = run.compile([&](const Tensor& x) {
    net.zero_grad();
    Tensor hidden = net.in(x).relu();
    Tensor shift = hidden.detach().zeros_like().requires_grad_();
    Tensor loss = net.out(hidden + shift).square().sum() * 0.25;
    loss.backward();
    return shift.grad();
  });
  for (int i = 0; i < 5; ++i) run.log(f(points(i)), net.in.weight.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(LeavesOfTheBody, 6);

}  // namespace
}  // namespace tenon::programs
