// Optimisers whose updates look alike: others take their place, options and states change.
#include "program.h"

#include <tenon/optim/adaptive.h>

#include <optional>

namespace tenon::programs {
namespace {

struct Net : nn::Module {
  nn::Linear in{2, 4}, out{4, 1};
  TENON_MODULE(Net, in, out)
  Net() {
    NoGradGuard no_grad;
    for (const Tensor& p : parameters()) p.fill_(0.25);
  }
  Tensor forward(const Tensor& x) const { return out(in(x)); }
};

Tensor points(int i) { return row({1, float(i % 3), -1, 2}).reshape({2, 2}) * 0.5; }

template <class Optimizer>
Tensor train(const Net& net, Optimizer& opt, const Tensor& x) {
  opt.zero_grad();
  Tensor loss = net(x).square().sum() * 0.25;
  loss.backward();
  opt.step();
  return loss.detach();
}

TENON_PROGRAM(OptimisersWithOtherOptionsTakeTurns, 8) {
  Net net;
  optim::SGD plain(net.parameters(), {.lr = 0.125}),
      pulled(net.parameters(), {.lr = 0.125, .weight_decay = 0.5}),
      heavy(net.parameters(), {.lr = 0.125, .weight_decay = 0.25});
  optim::SGD* opt = &plain;
  auto f = run.compile([&](const Tensor& x) { return train(net, *opt, x); });
  for (int i = 0; i < 12; ++i) {
    opt = i % 3 == 0 ? &plain : i % 3 == 1 ? &pulled : &heavy;
    run.log(f(points(i)), net.in.weight, net.out.bias);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(OptimisersWithOtherOptionsTakeTurns, 8);

TENON_PROGRAM(AnOptimiserIsMadeAnewInItsPlace, 12) {
  Net net;
  std::optional<optim::SGD> opt;
  auto f = run.compile([&](const Tensor& x) { return train(net, *opt, x); });
  for (int i = 0; i < 9; ++i) {
    if (i % 3 == 0)
      opt.emplace(net.parameters(), optim::SGDOptions{.lr = 0.125, .weight_decay = i * 0.125});
    run.log(f(points(i)), net.in.weight, net.out.bias);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AnOptimiserIsMadeAnewInItsPlace, 12);

TENON_PROGRAM(OptimisersComeAsArguments, 8) {
  Net first, second;
  optim::SGD a(first.parameters(), {.lr = 0.125, .momentum = 0.5}),
      b(second.parameters(), {.lr = 0.125, .momentum = 0.5, .nesterov = true});
  auto f =
      run.compile([](Net& net, optim::SGD& opt, const Tensor& x) { return train(net, opt, x); });
  for (int i = 0; i < 8; ++i) {
    run.log(f(i % 2 ? second : first, i % 2 ? b : a, points(i)));
    run.log(first.in.weight, second.in.weight);
  }
}

struct CountingSgd : optim::SGD {
  using optim::SGD::SGD;
  mutable int n_updates = 0;

 private:
  void update(size_t group, const Tensor& parameter, const Tensor& grad,
              const std::vector<Tensor>&) const override {
    ++n_updates;
    parameter.addcmul_(n_updates % 4 == 0 ? grad.neg() : grad, groups()[group].lr.tensor(), -1);
  }
};

TENON_PROGRAM(AnOptimiserOfTheProgramCounts, 16) {
  Net net;
  CountingSgd opt(net.out.parameters(), optim::SGDOptions{.lr = 0.125});
  auto f = run.compile([&](const Tensor& x) { return train(net, opt, x); });
  for (int i = 0; i < 8; ++i) run.log(f(points(i)), opt.n_updates, net.out.weight);
}
TENON_PROGRAM_IN_ONE_GRAPH(AnOptimiserOfTheProgramCounts, 16);

TENON_PROGRAM(SomeParametersHaveNoGradient, 8) {
  Net net;
  optim::SGD opt(net.parameters(), {.lr = 0.125, .momentum = 0.5});
  int i = 0;
  auto f = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor h = net.in(x);
    Tensor loss = (i % 3 == 1 ? h.detach() : h).matmul(net.out.weight.t()).square().sum() * 0.125;
    if (i % 3 == 2) loss = loss + net.out.bias.sum();
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (i = 0; i < 9; ++i) run.log(f(points(i)), net.in.weight, net.out.weight, net.out.bias);
}
TENON_PROGRAM_IN_ONE_GRAPH(SomeParametersHaveNoGradient, 8);

TENON_PROGRAM(WhatFollowsAStepDiffers, 8) {
  Net net;
  optim::SGD opt(net.parameters(), {.lr = 0.125, .momentum = 0.5});
  int i = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor loss = train(net, opt, x);
    NoGradGuard no_grad;
    if (i % 4 == 3) net.in.weight.mul_(0.5);
    Tensor sum = net.in.weight.sum();
    if (i % 2) opt.step();
    return loss + sum + net.in.weight.sum() * (i > 4 ? 2 : 1);
  });
  for (i = 0; i < 10; ++i) run.log(f(points(i)), net.in.weight, net.out.bias);
}
TENON_PROGRAM_IN_ONE_GRAPH(WhatFollowsAStepDiffers, 8);

TENON_PROGRAM(NumbersReadBeforeAStepStayAsTheyWere, 8) {
  Net net;
  optim::SGD opt(net.parameters(), {.lr = 0.125});
  auto f = run.compile([&](const Tensor& x) {
    auto bias = net.out.bias.item<float>();
    double rate = opt.lr;
    Tensor loss = train(net, opt, x);
    return loss + bias * rate;
  });
  for (int i = 0; i < 6; ++i) {
    run.log(f(points(i)), net.out.bias);
    if (i == 3) opt.lr *= 0.5;
  }
}

TENON_PROGRAM(AnotherTypeAroundTheStep, 8) {
  Net net;
  optim::SGD opt(net.parameters(), {.lr = 0.125, .momentum = 0.5});
  int i = 0;
  auto f = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor loss = net(x).sum() * 0.25;
    loss.backward();
    std::optional<AutocastGuard> half;
    if (i % 2) half.emplace(AutocastOptions{});
    opt.step();
    return loss.detach();
  });
  for (i = 0; i < 6; ++i) run.log(f(points(i)), net.in.weight, net.out.bias);
}
TENON_PROGRAM_IN_ONE_GRAPH(AnotherTypeAroundTheStep, 8);

TENON_PROGRAM(ParametersAndTheirStatesAreReplaced, 10) {
  Net net;
  optim::SGD opt(net.parameters(), {.lr = 0.125, .momentum = 0.5});
  auto f = run.compile([&](const Tensor& x) { return train(net, opt, x); });
  for (int i = 0; i < 10; ++i) {
    optim::Group::Slot& slot = opt.groups()[0].slots[1];
    if (i == 3) slot.state[0] = ones_like(slot.state[0]);
    if (i == 5)
      opt.groups()[0].slots[0].state[0] = slot.state[0].expand({4, 4}).narrow(1, 0, 2).clone();
    if (i == 7) slot.parameter = Tensor(net.in.bias = nn::Parameter(ones({4})));
    run.log(f(points(i)), net.in.weight, net.in.bias, slot.state[0]);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(ParametersAndTheirStatesAreReplaced, 10);

template <class Optimizer, class Options>
void five_steps(Run& run, const Options& options) {
  Net net;
  Optimizer opt(net.parameters(), options);
  auto f = run.compile([&](const Tensor& x) { return train(net, opt, x); });
  for (int i = 0; i < 5; ++i) run.log(f(points(i)), net.in.weight, net.out.bias);
}

TENON_PROGRAM(EveryOptimiserStepsFiveTimes, 18) {
  five_steps<optim::SGD>(run, optim::SGDOptions{.momentum = 0.5, .dampening = 0.25});
  five_steps<optim::Adam>(run, optim::AdamOptions{.lr = 0.125, .amsgrad = true});
  five_steps<optim::AdamW>(run, optim::AdamWOptions{.lr = 0.125});
  five_steps<optim::RMSprop>(run, optim::RMSpropOptions{.momentum = 0.5, .centered = true});
  five_steps<optim::Adagrad>(run, optim::AdagradOptions{.lr_decay = 0.5});
  five_steps<optim::Adadelta>(run, optim::AdadeltaOptions{});
  five_steps<optim::Adamax>(run, optim::AdamaxOptions{});
  five_steps<optim::NAdam>(run, optim::NAdamOptions{});
  five_steps<optim::RAdam>(run, optim::RAdamOptions{});
}
TENON_PROGRAM_IN_ONE_GRAPH(EveryOptimiserStepsFiveTimes, 18);

}  // namespace
}  // namespace tenon::programs
