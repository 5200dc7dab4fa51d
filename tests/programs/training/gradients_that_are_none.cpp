// A pass goes through one result of a segment: what only others depend on gets no gradient, and an
// optimiser leaves it alone.
#include "program.h"

#include <memory>

namespace tenon::programs {
namespace {

// `fill` writes something into a result that no gradient comes through.
template <class F>
void train(Run& run, F fill) {
  Tensor w = row({0.5, 0.5, 0.5}).requires_grad_(), s = row({2, 2, 2}).requires_grad_();
  optim::SGD opt({w, s}, {.lr = 0.125, .weight_decay = 0.5});
  auto f = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor y = x * s;
    fill(y, w);
    (x * w).square().sum().backward();
    opt.step();
    return y;
  });
  for (int i = 0; i < 3; ++i) {
    Tensor y = f(ones({2, 3}) * (0.5 * (i + 1)));
    run.log(y, w, s, s.grad().defined());
  }
}

TENON_PROGRAM(ARowOfAnotherResultIsAssigned, 6) {
  train(run, [](const Tensor& y, const Tensor& w) { y[0] = w * 2; });
}
TENON_PROGRAM(ARowOfAnotherResultIsCopied, 6) {
  train(run, [](const Tensor& y, const Tensor& w) { y.select(0, 1).copy_(w); });
}
TENON_PROGRAM(AnotherResultIsFilled, 6) {
  train(run, [](const Tensor& y, const Tensor& w) { y.fill_(w.sum()); });
}
TENON_PROGRAM(ARowOfAnotherResultBecomesZero, 6) {
  train(run, [](const Tensor& y, const Tensor&) { y.select(0, 0).zero_(); });
}

// The learning rate of the optimiser is a tensor of the recording.
TENON_PROGRAM(TheBodyMakesTheOptimiserThatStepsInThePass, 8) {
  Tensor w = row({0.5, 0.5, 0.5}).requires_grad_();
  std::unique_ptr<optim::SGD> opt;
  auto f = run.compile([&](const Tensor& x) {
    if (!opt)
      opt = std::make_unique<optim::SGD>(std::vector<Tensor>{w}, optim::SGDOptions{.lr = 0.125});
    Tensor loss = (x * w).square().sum();
    optim::StepInBackward in_pass(*opt);
    loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 4; ++i) run.log(f(row({1, 0.5, 1})), w);
}

// Disabled code makes a tensor whose size is known to be that of an argument, which a later segment
// does not see.
TENON_PROGRAM(ALaterSegmentKnowsASizeByAnother, 8) {
  Tensor s = row({2}).requires_grad_();
  auto off = disable([&](const Tensor& t) { return t * s; });
  auto f = run.compile([&](const Tensor& x, const Tensor& y) {
    Tensor t = off(x), d = (t - y).sum();
    graph_break("here");
    return d + t.mean(0).sum();
  });
  for (int i = 0; i < 4; ++i) {
    s.set_grad({});
    Tensor l = f(halves({i + 2, 4}), ones({i + 2, 4}));
    l.backward();
    run.log(l.detach(), s.grad());
  }
}

// A captured tensor has a history inside of the body, and none behind it.
template <class F>
void carry(Run& run, F change) {
  Tensor w = row({0.5, 0.25, 0.5}).requires_grad_(), state = ones({3});
  auto f = run.compile([&](const Tensor& x) {
    change(state, w);
    Tensor loss = (state * w).sum() + (state * x).sum();
    loss.backward();
    state.detach_();
    return loss.detach();
  });
  for (int i = 0; i < 4; ++i) {
    Tensor loss = f(row({1, 0.5, 1}) * (i + 1));
    run.log(loss, w.grad(), state, state.requires_grad());
  }
}

TENON_PROGRAM(AStateIsScaledByAWeight, 12) {
  carry(run, [](const Tensor& state, const Tensor& w) { state.mul_(w); });
}
TENON_PROGRAM_IN_ONE_GRAPH(AStateIsScaledByAWeight, 4);

TENON_PROGRAM(AStateIsWrittenTwice, 12) {
  carry(run, [](const Tensor& state, const Tensor& w) {
    state.mul_(w);
    state.mul_(2);
  });
}
TENON_PROGRAM_IN_ONE_GRAPH(AStateIsWrittenTwice, 4);

TENON_PROGRAM(AnElementOfAStateIsAssigned, 12) {
  carry(run, [](const Tensor& state, const Tensor& w) { state[0] = w[1]; });
}
TENON_PROGRAM_IN_ONE_GRAPH(AnElementOfAStateIsAssigned, 4);

// Each choice of results has a backward of its own.
void use_each_choice(Run& run, auto& f, const std::vector<int64_t>& sizes) {
  for (int choice = 1; choice < 16; ++choice) {
    Tensor x = halves(sizes, choice).requires_grad_(), y = ones(sizes).requires_grad_();
    std::vector<Tensor> results = f(x, y);
    Tensor loss = zeros({});
    for (size_t i = 0; i < results.size(); ++i)
      if (choice >> i & 1) loss = loss + results[i].sum();
    if (loss.requires_grad()) loss.backward();
    run.log(x.grad().defined() ? x.grad() : zeros({}), y.grad().defined() ? y.grad() : zeros({}));
  }
}

// Zeros in the place of a gradient that is one row, shown more than once.
TENON_PROGRAM(ExpandedGradientsAreNone, 16) {
  auto f = run.compile([](const Tensor& x, const Tensor& y) {
    Tensor both = stack(std::vector<Tensor>{x, y}).sum(0), total = y.sum();
    Tensor again = stack(std::vector<Tensor>{both, total.expand_as(x)}).sum(0);
    return std::vector<Tensor>{both, y + x, (total + x) * y, again};
  });
  use_each_choice(run, f, {3});
}

TENON_PROGRAM(GradientsOfOneRowAreNone, 16) {
  auto f = run.compile([](const Tensor& x, const Tensor& y) {
    Tensor turned = x.t(), back = turned.t() * 3.0;
    return std::vector<Tensor>{back, turned * 2.0, turned.narrow(1, 0, 2) * 0.5, back * y};
  });
  use_each_choice(run, f, {3, 1});
}

// Operations of which it is not known what they are linear in get zeros: their leaves get nothing.
TENON_PROGRAM(ZerosReachNoLeaf, 4) {
  auto f = run.compile([](const Tensor& x, const Tensor& w) {
    Tensor both = stack(std::vector<Tensor>{x, w.sum().expand_as(x)}).sum(0);
    return std::pair((x * 2.0).square().sum(), both.cumprod(0));
  });
  for (int i = 0; i < 2; ++i) {
    Tensor x = halves({3}, i).requires_grad_(), w = ones({3}).requires_grad_();
    f(x, w).first.backward();
    run.log(x.grad(), w.grad().defined());
  }
}

// Zeros by a rule are a gradient, whichever results there are besides.
TENON_PROGRAM(GradientsThatAreZeroByARule, 16) {
  auto log_with = [&](auto zero) {
    auto f = run.compile([=](const Tensor& x) { return std::vector<Tensor>{x * 2.0, zero(x)}; });
    Tensor x = ones({2}).requires_grad_();
    std::vector<Tensor> results = f(x);
    results[1].sum().backward();
    run.log(x.grad().defined(), x.grad());
  };
  log_with([](const Tensor& x) { return x.sign(); });
  log_with([](const Tensor& x) { return x.floor(); });
  log_with([](const Tensor& x) { return x.clone().zero_(); });
}

}  // namespace
}  // namespace tenon::programs
