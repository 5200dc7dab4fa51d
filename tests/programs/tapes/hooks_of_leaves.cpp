// Hooks on leaves that a whole step gets or captures: registered around it, in it, and removed again.
#include "program.h"

namespace tenon::programs {
namespace {

namespace ag = autograd;

Tensor input(int rows = 2) { return ones({rows, 4}).requires_grad_(); }
Tensor weight() { return (ones({4, 3}) * 0.5).requires_grad_(); }

TENON_PROGRAM(AHookOnAnArgument, 4) {
  Tensor w = weight();
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor loss = x.matmul(w).square().sum();
    loss.backward();
    return x.grad() * 1.0;
  });
  for (int i = 0; i < 6; ++i) {
    Tensor x = input();
    ag::HookHandle hook;
    if (i % 3 != 1) hook = ag::register_hook(x, [&](const Tensor& g) { return ++n, g * 2.0; });
    run.log(f(x), x.grad(), n);
    hook.remove();
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AHookOnAnArgument, 3);

TENON_PROGRAM(AHookThatTheStepRegistersOnAnArgument, 4) {
  Tensor w = weight();
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor loss = x.matmul(w).square().sum();
    auto hook = ag::register_hook(x, [&](const Tensor& g) { return ++n, g * 0.5; });
    loss.backward();
    hook.remove();
    return loss.detach();
  });
  for (int i = 0; i < 5; ++i) {
    Tensor x = input(2 + i / 3);
    run.log(f(x), x.grad(), n);
    x.set_grad({});
    x.sum().backward();
    run.log(x.grad(), n);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AHookThatTheStepRegistersOnAnArgument, 4);

TENON_PROGRAM(AHookThatTheStepRegistersOnAWeight, 4) {
  Tensor w = weight();
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({});
    Tensor loss = x.matmul(w).square().sum();
    auto hook = ag::register_hook(w, [&](const Tensor& g) { return ++n, g * 2.0; });
    loss.backward();
    hook.remove();
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i) run.log(f(ones({2 + i / 3, 4})), w.grad(), n);
}
TENON_PROGRAM_IN_ONE_GRAPH(AHookThatTheStepRegistersOnAWeight, 4);

TENON_PROGRAM(EachStepLeavesOneHookMore, 8) {
  Tensor w = weight();
  int n = 0;
  std::vector<ag::HookHandle> kept;
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({});
    Tensor loss = x.matmul(w).sum();
    kept.push_back(ag::register_hook(w, [&](const Tensor& g) { return ++n, g * 0.5; }));
    loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 4; ++i) run.log(f(ones({2, 4})), w.grad(), n);
  for (ag::HookHandle& hook : kept) hook.remove();
  w.set_grad({});
  w.sum().backward();
  run.log(w.grad(), n);
}
TENON_PROGRAM_IN_ONE_GRAPH(EachStepLeavesOneHookMore, 8);

TENON_PROGRAM(AnArgumentIsWrittenWhenItHasItsGradient, 4) {
  Tensor w = weight();
  auto f = run.compile([&](const Tensor& x) {
    Tensor loss = x.matmul(w).square().sum();
    loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i) {
    Tensor x = input();
    if (i % 2)
      ag::register_post_accumulate_grad_hook(x, [](const Tensor& t) {
        NoGradGuard off;
        t.sub_(t.grad(), 0.25);
      });
    run.log(f(x), x, x.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AnArgumentIsWrittenWhenItHasItsGradient, 4);

TENON_PROGRAM(TheStepHasItsUpdatesInItsPass, 4) {
  Tensor w = weight(), b = zeros({3}).requires_grad_();
  optim::SGD opt({w, b}, {.lr = 0.125});
  auto f = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor loss = (x.matmul(w) + b).sum();
    optim::StepInBackward in_backward(opt);
    loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 4; ++i) run.log(f(ones({2, 4})), w, b);
}
TENON_PROGRAM_IN_ONE_GRAPH(TheStepHasItsUpdatesInItsPass, 2);

TENON_PROGRAM(AFrozenWeightIsWrittenBeforeItsUpdate, 8) {
  Tensor w = weight(), b = ones({3}).requires_grad_();
  optim::SGD opt({w, b}, {.lr = 0.125});
  auto f = run.compile([&](const Tensor& x) {
    {
      NoGradGuard off;
      b.mul_(0.5);
    }
    optim::StepInBackward in_backward(opt);
    Tensor loss = (x.matmul(w) + b).sum();
    loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i) {
    b.requires_grad_(i < 2 || i == 4);
    run.log(f(ones({2, 4})), w, b);
  }
}

// Before and behind the node that adds the gradient up, among hooks of the other kinds.
TENON_PROGRAM(HooksOnTheNodeOfAWeight, 12) {
  Tensor w = weight(), b = ones({3}).requires_grad_();
  optim::SGD opt({b}, {.lr = 0.125});
  auto f = run.compile([&](const Tensor& x) {
    Tensor loss = (x.matmul(w) + b).square().sum();
    loss.backward();
    return loss.detach();
  });
  Tensor holds_nodes = w.sum() + b.sum();
  auto sums = ag::grad_fn(holds_nodes).next_functions();
  ag::GradFn of_w = sums[0].next_functions()[0], of_b = sums[1].next_functions()[0];
  for (int i = 0; i < 10; ++i) {
    w.set_grad({});
    optim::StepInBackward in_backward(opt);
    std::vector<ag::HookHandle> hooks;
    if (i % 2)
      hooks.push_back(of_w.register_prehook(
          [](const std::vector<Tensor>& g) { return std::vector<Tensor>{g[0] * 3.0}; }));
    if (i % 3 == 1)
      hooks.push_back(
          of_w.register_hook([&](const std::vector<Tensor>& out, const std::vector<Tensor>& in) {
            run.log("behind", out.size(), in.size(), w.grad().dim());
            return out;
          }));
    if (i % 4 == 3) hooks.push_back(ag::register_hook(w, [](const Tensor& g) { return g + 1.0; }));
    if (i % 5 > 2)
      hooks.push_back(of_b.register_prehook(
          [](const std::vector<Tensor>& g) { return std::vector<Tensor>{g[0] * 0.5}; }));
    if (i > 6)
      hooks.push_back(ag::register_post_accumulate_grad_hook(
          w, [&](const Tensor& t) { run.log("added", t.grad().dim()); }));
    run.log(f(ones({2, 4})));
    run.log(w.grad(), b, b.grad());
    for (auto& hook : hooks) hook.remove();
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(HooksOnTheNodeOfAWeight, 12);

// What an optimiser of the program reads is no part of the tape.
struct Fading : optim::Optimizer {
  double rate = 0.5;
  mutable int updates = 0;
  explicit Fading(const std::vector<Tensor>& parameters) { add_group(parameters, 0.5, 0, {}); }
  void update(size_t, const Tensor& p, const Tensor& g, const std::vector<Tensor>&) const override {
    if (++updates == 4) throw std::runtime_error("the fourth update");
    p.sub_(g * rate);
  }
};

TENON_PROGRAM(AnOptimizerReadsItsOwnNumber, 4) {
  Tensor w = weight();
  Fading opt({w});
  optim::StepInBackward in_backward(opt);
  auto f = run.compile([&](const Tensor& x) { return x.matmul(w).sum(); });
  for (int i = 0; i < 6; ++i) {
    run.log_error([&] { f(ones({2, 4})).backward(); });
    opt.rate *= 0.5;
    run.log(w, opt.updates);
  }
}

}  // namespace
}  // namespace tenon::programs
