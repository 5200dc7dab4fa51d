// Whole steps whose tape is made only when somebody looks: what bodies ask of it and leave undone on
// some calls.
#include "tapes/two_layers.h"
#include "training/small_nets.h"

namespace tenon::programs {
namespace {

namespace ag = tenon::autograd;

TENON_PROGRAM(ANodeIsAskedFor, 6) {
  Net net;
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    ++n;
    net.zero_grad();
    Tensor hidden = net.in(x).relu(), loss = net.out(hidden).square().sum() * 0.25;
    if (n % 4 == 2) run.log(ag::grad_fn(loss).name(), hidden.is_leaf());
    loss.backward();
    if (n % 4 == 3) run.log(ag::grad_fn(loss).name(), ag::grad_fn(hidden).name());
    return loss.detach();
  });
  for (int i = 0; i < 9; ++i) run.log(f(points(i)), net.in.weight.grad(), net.out.bias.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(ANodeIsAskedFor, 6);

TENON_PROGRAM(TwoNetsTakeTheirSteps, 4) {
  Net maker, judge(0.125);
  optim::SGD of_maker(maker.parameters(), {.lr = 0.125, .momentum = 0.5});
  optim::SGD of_judge(judge.parameters(), {.lr = 0.0625});
  auto f = run.compile([&](const Tensor& x) {
    of_judge.zero_grad();
    Tensor made = maker(x);
    Tensor judged = judge(made.detach()).square().sum() * 0.125 - judge(x).sum() * 0.125;
    judged.backward();
    of_judge.step();
    of_maker.zero_grad();
    Tensor loss = judge(made).square().sum() * 0.125;
    loss.backward();
    of_maker.step();
    return std::pair(judged.detach(), loss.detach());
  });
  for (int i = 0; i < 6; ++i) {
    auto [judged, loss] = f(points(i));
    run.log(judged, loss, judge.in.weight, maker.in.weight, judge.out.bias.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(TwoNetsTakeTheirSteps, 4);

TENON_PROGRAM(PassesOverOneTape, 6) {
  Net net;
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    ++n;
    net.zero_grad();
    Tensor y = net(x), loss = y.square().sum() * 0.25;
    loss.backward({}, /*retain_graph=*/true);
    (y.sum() * 0.5).backward({}, n % 5 == 4);
    if (n % 5 == 4) loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 10; ++i) run.log(f(points(i)), net.in.weight.grad(), net.out.weight.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(PassesOverOneTape, 6);

TENON_PROGRAM(APassOverAUsedTapeIsRefused, 8) {
  Net net;
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    ++n;
    net.zero_grad();
    Tensor loss = net(x).square().sum() * 0.25;
    loss.backward();
    if (n % 3 == 0) loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 7; ++i) {
    try {
      run.log(f(points(i)), net.in.weight.grad());
    } catch (const std::exception& error) {
      run.log(std::string(error.what()).find("retain_graph") != std::string::npos, n);
    }
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(APassOverAUsedTapeIsRefused, 8);

struct Normalised : nn::Module {
  nn::Linear in{2, 4}, out{4, 2};
  nn::BatchNorm1d norm{4};
  TENON_MODULE(Normalised, in, norm, out)
  Normalised() {
    NoGradGuard no_grad;
    for (const Tensor& p : parameters()) p.fill_(0.5);
  }
  Tensor forward(const Tensor& x) { return out(norm(in(x)).relu()); }
};

TENON_PROGRAM(StatisticsOfTwoBatches, 6) {
  Normalised net;
  optim::SGD opt(net.parameters(), {.lr = 0.125});
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    ++n;
    opt.zero_grad();
    Tensor loss = net(x).square().sum() * 0.25;
    if (n % 3 != 1) loss = loss + net(x * 0.5).sum() * 0.5;
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (int i = 0; i < 8; ++i) {
    run.log(f(points(i)), net.norm.running_mean, net.norm.running_var, net.norm.weight.grad());
    if (i % 4 == 2) net.train(!net.is_training());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(StatisticsOfTwoBatches, 6);

TENON_PROGRAM(HooksComeAndGoBetweenCalls, 8) {
  Net net;
  auto f = run.compile([&](const Tensor& x) {
    net.zero_grad();
    Tensor loss = net(x).square().sum() * 0.25;
    loss.backward();
    return loss.detach();
  });
  run.log(f(points(0)), f(points(1)), net.in.weight.grad());
  auto doubles = ag::register_hook(net.in.weight, [](const Tensor& g) { return g * 2.0; });
  run.log(f(points(0)), f(points(1)), net.in.weight.grad());
  doubles.remove();
  run.log(f(points(2)), net.in.weight.grad());
  int n_called = 0;
  auto counts =
      ag::register_post_accumulate_grad_hook(net.out.bias, [&](const Tensor&) { ++n_called; });
  run.log(f(points(0)), n_called > 0, net.out.bias.grad());
  counts.remove();
  run.log(f(points(1)), net.out.bias.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(HooksComeAndGoBetweenCalls, 8);

TENON_PROGRAM(ResultsKeepTheirHistory, 6) {
  Net net;
  auto f = run.compile([&](const Tensor& x) {
    net.zero_grad();
    Tensor y = net(x);
    (y.sum() * 0.5).backward({}, /*retain_graph=*/true);
    return y;
  });
  for (int i = 0; i < 5; ++i) {
    Tensor y = f(points(i));
    run.log(y.requires_grad(), net.in.weight.grad());
    y.square().sum().backward();
    run.log(net.in.weight.grad(), net.out.bias.grad());
  }
}

struct Doubled : ag::Function<Doubled> {
  static std::vector<Tensor> forward(ag::Context&, const std::vector<Tensor>& in) {
    return {in[0] * 2.0};
  }
  static std::vector<Tensor> backward(ag::Context&, std::vector<Tensor> grads) {
    return {grads[0] * 3.0};
  }
};

TENON_PROGRAM(OwnFunctionsStandBetween, 6) {
  Net net;
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    ++n;
    net.zero_grad();
    Tensor hidden = net.in(x).relu();
    if (n % 3 == 2) hidden = Doubled::apply({hidden})[0];
    Tensor loss = net.out(hidden).square().sum() * 0.25;
    loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 7; ++i) run.log(f(points(i)), net.in.weight.grad(), net.out.weight.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(OwnFunctionsStandBetween, 6);

TENON_PROGRAM(GradientsOfHiddenLayersAreRetained, 6) {
  Net net;
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    ++n;
    net.zero_grad();
    Tensor hidden = net.in(x).relu(), y = net.out(hidden);
    if (n % 3 == 2) hidden.retain_grad();
    if (n % 3 == 1)
      static_cast<void>(ag::register_hook(y, [](const Tensor& g) { return g * 0.5; }));
    (y.square().sum() * 0.25).backward();
    return n % 3 == 2 ? hidden.grad() : y.detach();
  });
  for (int i = 0; i < 7; ++i) run.log(f(points(i)), net.in.weight.grad(), net.out.weight.grad());
}

TENON_PROGRAM(ATeacherRunsWithoutGradients, 4) {
  Net net, teacher(0.5);
  optim::SGD opt(net.parameters(), {.lr = 0.125});
  auto f = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor y = net(x), target;
    {
      NoGradGuard no_grad;
      target = teacher(x);
      for (size_t i = 0; i < teacher.parameters().size(); ++i)
        teacher.parameters()[i].mul_(0.5).add_(net.parameters()[i], 0.5);
    }
    Tensor loss = (y - target).square().sum() * 0.25;
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (int i = 0; i < 5; ++i) run.log(f(points(i)), net.in.weight, teacher.in.weight);
}
TENON_PROGRAM_IN_ONE_GRAPH(ATeacherRunsWithoutGradients, 4);

TENON_PROGRAM(ScalesChangeFromCallToCall, 8) {
  Net net;
  optim::SGD opt(net.parameters(), {.lr = 0.125});
  auto f = run.compile([&](const Tensor& x, float scale) {
    opt.zero_grad();
    Tensor loss = (net(x) * scale).square().sum() * 0.25;
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (int i = 0; i < 7; ++i) {
    Tensor loss = f(points(i), 1.0f / float(1 << i % 4));
    run.log(coarse(loss * 64), coarse(net.in.weight.grad() * 64));
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(ScalesChangeFromCallToCall, 8);

TENON_PROGRAM(SavedTensorsArePacked, 8) {
  Net net;
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    ++n;
    net.zero_grad();
    Tensor hidden = net.in(x).relu(), y;
    if (n % 3 == 2) {
      ag::SavedTensorHooks halved(
          [](const Tensor& t) { return std::make_shared<Tensor>(t * 0.5); },
          [](const std::shared_ptr<void>& p) { return *std::static_pointer_cast<Tensor>(p); });
      y = net.out(hidden);
    } else {
      y = net.out(hidden);
    }
    (y.square().sum() * 0.25).backward();
    return y.detach();
  });
  for (int i = 0; i < 6; ++i) run.log(f(points(i)), net.in.weight.grad(), net.out.weight.grad());
}

TENON_PROGRAM(TheRowsOfAnotherCall, 12) {
  Tensor w = ones({4, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x, int at, bool triples) {
    w.set_grad({});
    Tensor y = (x * w)[at];
    if (triples) y = y * 3.0;
    y.sum().backward();
    return y.detach();
  });
  for (auto [at, triples] : {std::pair(0, false), {1, false}, {2, true}, {1, true}, {0, true}})
    run.log(f(ones({4, 2}), at, triples), w.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(TheRowsOfAnotherCall, 12);

TENON_PROGRAM(AFactorThatWasOne, 12) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x, double factor) {
    w.set_grad({});
    Tensor y = x.add(w, factor);
    y.sum().backward();
    return y.detach();
  });
  for (double factor : {0.5, 0.25, 1.0, 0.75, 1.0, 0.5}) run.log(f(row({1, 1}), factor), w.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(AFactorThatWasOne, 12);

TENON_PROGRAM(AHookOnTheNodeOfALeaf, 8) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({});
    Tensor loss = (x * w).sum();
    loss.backward();
    return loss.detach();
  });
  run.log(f(row({1, 1})), f(row({1, 1})), w.grad());
  Tensor other = w * 1.0;
  auto hook = ag::grad_fn(other).next_functions()[0].register_prehook(
      [](const std::vector<Tensor>& g) { return std::vector<Tensor>{g[0] * 3.0}; });
  run.log(f(row({1, 1})), f(row({1, 1})), w.grad());
  hook.remove();
  run.log(f(row({1, 1})), w.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(AHookOnTheNodeOfALeaf, 8);

}  // namespace
}  // namespace tenon::programs
