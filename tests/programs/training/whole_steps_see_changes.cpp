// Whole steps in one graph see what changes between calls: groups, weights, hooks, numbers, errors.
#include "program.h"

#include <tenon/control_flow.h>

#include <stdexcept>

namespace tenon::programs {
namespace {

namespace ag = tenon::autograd;

struct Mlp : nn::Module {
  nn::Linear in{2, 4}, out{4, 1};
  TENON_MODULE(Mlp, in, out)
  Mlp() {
    NoGradGuard no_grad;
    for (const Tensor& p : parameters()) p.fill_(0.25);
  }
  Tensor forward(const Tensor& x) const { return out(in(x).relu()); }
};

Tensor points(int i) { return row({1, float(i % 3), -1, 2}).reshape({2, 2}) * 0.5; }

// The body does it, whatever the call before did: `i` counts outside.
template <class Step>
void eight_steps(Run& run, Mlp& net, Step step) {
  int i = 0;
  auto f = run.compile([&](const Tensor& x) { return step(x, i); });
  for (i = 0; i < 8; ++i) run.log(f(points(i)), net.in.weight, net.out.bias);
}

TENON_PROGRAM(AGroupIsAddedToTheOptimizer, 6) {
  Mlp net;
  optim::SGD opt(net.out.parameters(), {.lr = 0.125});
  auto f = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor loss = net(x).square().sum() * 0.25;
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (int i = 0; i < 8; ++i) {
    if (i == 4) opt.add_param_group(net.in.parameters());
    run.log(f(points(i)), net.in.weight, net.out.weight);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AGroupIsAddedToTheOptimizer, 6);

TENON_PROGRAM(EveryThirdStepUpdates, 8) {
  Mlp net;
  optim::SGD opt(net.parameters(), {.lr = 0.125, .momentum = 0.5});
  eight_steps(run, net, [&](const Tensor& x, int i) {
    Tensor loss = net(x).sum() * 0.25;
    loss.backward();
    if (i % 3 == 2) {
      opt.step();
      opt.zero_grad();
    }
    return loss.detach();
  });
}
TENON_PROGRAM_IN_ONE_GRAPH(EveryThirdStepUpdates, 8);

TENON_PROGRAM(LayersAreFrozenForSomeSteps, 6) {
  Mlp net;
  optim::SGD opt(net.parameters(), {.lr = 0.125});
  eight_steps(run, net, [&](const Tensor& x, int i) {
    opt.zero_grad();
    for (const Tensor& p : net.in.parameters()) p.requires_grad_(i < 3 || i > 5);
    Tensor loss = net(x).square().sum() * 0.25;
    loss.backward();
    opt.step();
    return loss.detach();
  });
}
TENON_PROGRAM_IN_ONE_GRAPH(LayersAreFrozenForSomeSteps, 6);

TENON_PROGRAM(AHookComesAndSeesEachGradient, 6) {
  Mlp net;
  optim::SGD opt(net.parameters(), {.lr = 0.125});
  int seen = 0;
  eight_steps(run, net, [&](const Tensor& x, int i) {
    opt.zero_grad();
    Tensor hidden = net.in(x).relu();
    if (i > 3)
      ag::register_hook(hidden, [&](const Tensor& g) {
        seen = i;
        return g * 2.0;
      });
    net.out(hidden).sum().backward();
    opt.step();
    return net.out.bias.grad() * 1.0;
  });
  run.log(seen);
}
TENON_PROGRAM_IN_ONE_GRAPH(AHookComesAndSeesEachGradient, 6);

TENON_PROGRAM(TheLossIsAnotherOneFromSomeStepOn, 6) {
  Mlp net;
  optim::SGD opt(net.parameters(), {.lr = 0.125});
  Tensor scale = row({1, 2});
  eight_steps(run, net, [&](const Tensor& x, int i) {
    if (i == 5) scale = row({2, 1});
    opt.zero_grad();
    Tensor y = net(x * scale);
    Tensor loss = i < 4 ? y.square().sum() * 0.125 : y.abs().sum() * 0.25;
    loss.backward();
    opt.step();
    return loss.detach();
  });
}
TENON_PROGRAM_IN_ONE_GRAPH(TheLossIsAnotherOneFromSomeStepOn, 6);

TENON_PROGRAM(GradientsAreZeroedInPlace, 6) {
  Mlp net;
  eight_steps(run, net, [&](const Tensor& x, int) {
    for (const Tensor& p : net.parameters())
      if (p.grad().defined()) p.grad().zero_();
    Tensor loss = net(x).sum() * 0.25;
    loss.backward();
    NoGradGuard no_grad;
    for (const Tensor& p : net.parameters()) p.sub_(p.grad() * 0.125);
    return loss.detach();
  });
}
TENON_PROGRAM_IN_ONE_GRAPH(GradientsAreZeroedInPlace, 6);

TENON_PROGRAM(AWeightThatIsAnArgumentIsWritten, 4) {
  auto f = run.compile([](const Tensor& w, const Tensor& x) {
    w.set_grad({});
    Tensor loss = (x * w).sum();
    loss.backward();
    NoGradGuard no_grad;
    w.sub_(w.grad() * 0.125);
    return loss.detach();
  });
  Tensor w = row({1, 2}).requires_grad_();
  for (int i = 0; i < 6; ++i) run.log(f(w, ones({2 + i % 2, 2}) * double(i)), w);
}
TENON_PROGRAM_IN_ONE_GRAPH(AWeightThatIsAnArgumentIsWritten, 4);

TENON_PROGRAM(AStepThatThrowsHasDoneWhatCameBefore, 12) {
  Mlp net;
  optim::SGD opt(net.parameters(), {.lr = 0.125});
  Tensor steps = zeros({});
  int i = 0;
  auto f = run.compile([&](const Tensor& x) {
    steps.add_(1);
    opt.zero_grad();
    net(x).sum().backward();
    if (i == 3) throw std::runtime_error("behind the pass");
    opt.step();
    if (i == 5) throw std::runtime_error("behind the step");
    return net.out.bias * 1.0;
  });
  for (i = 0; i < 8; ++i) {
    run.log_error([&] { f(points(i)); });
    run.log(steps, net.in.weight, net.out.bias.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AStepThatThrowsHasDoneWhatCameBefore, 12);

TENON_PROGRAM(ALossOfAnotherCallableIsTakenBack, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  auto loss_of = run.compile([&](const Tensor& x) { return (x * w).square().sum(); });
  Tensor kept;
  auto f = run.compile([&](const Tensor& x) {
    kept.backward();
    return x.sum();
  });
  for (int i = 0; i < 3; ++i) {
    kept = loss_of(row({1, float(i)}));
    run.log(f(ones({2})), w.grad());
  }
}

TENON_PROGRAM(GradientsOfWhatTheBodyHasComputed, 6) {
  Tensor w = row({0.5, -1}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    Tensor inner = ag::grad({h.square().sum()}, {w}, {.create_graph = true})[0];
    Tensor fast = w - inner * 0.25;
    return std::pair(ag::grad({h.square().sum()}, {h})[0],
                     ag::grad({(x * fast).square().sum()}, {fast})[0]);
  });
  for (int i = 0; i < 4; ++i) {
    auto [by_hidden, by_fast] = f(row({1, float(i)}));
    run.log(by_hidden, by_fast);
  }
}

TENON_PROGRAM(PassesThatStopInTheMiddleOverSizes, 12) {
  Tensor w = ones({3}).requires_grad_();
  auto f = run.compile([&](const Tensor& z, bool both) {
    Tensor h = z * w;
    (h + zeros({z.size(0), 1})).sum().backward({}, true);
    if (!both) return h.detach();
    Tensor loss = (h + ones({z.size(0), 1})).sum();
    loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i) run.log(f(ones({3 + i % 4, 3}), i % 3 != 1), w.grad());
}

// The last way begins as two others do, which the run follows one after the other.
TENON_PROGRAM(AViewIsWrittenOnSomeWays, 8) {
  Tensor w = full({2}, 0.5).requires_grad_();
  int ways = 0;
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({});
    Tensor k = x * w;
    if (ways & 1) k.select(0, 0).mul_(2);
    if (ways & 2) k = k + 1;
    k.sum().backward();
    return k.detach();
  });
  for (int i : {0, 1, 2, 3, 1, 3, 0, 2, 3}) {
    ways = i;
    run.log(f(ones({2})), w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AViewIsWrittenOnSomeWays, 4);

TENON_PROGRAM(AHistoryIsForgotten, 2) {
  Tensor w = full({4, 4}, 0.25).requires_grad_();
  auto f = run.compile(
      [&](const Tensor& x) {
        w.set_grad({});
        Tensor h = x.matmul(w);
        h.detach_();
        bool needs = h.requires_grad();
        (h.sum() + w.sum()).backward();
        return std::pair(h.sum(), needs);
      },
      {.fullgraph = true});
  for (int i = 0; i < 4; ++i) {
    auto [sum, needs] = f(ones({3, 4}) * i);
    run.log(sum, needs, w.grad());
  }
}

// What is written needed no gradient before.
TENON_PROGRAM(AnEmptyBufferIsFilledThroughViews, 8) {
  Tensor w = full({4, 4}, 0.25).requires_grad_(), b = full({4}, 0.5).requires_grad_();
  auto f = run.compile(
      [&](const Tensor& x, int how) {
        w.set_grad({}), b.set_grad({});
        Tensor c = zeros({4, 4});
        if (how == 0) c.narrow(0, 1, 3).copy_(x * b);
        if (how == 1) c.select(0, 0).add_(b);
        if (how == 2) c.t().slice(1, 0, 2).mul_(2.0).add_(b.unsqueeze(1));
        if (how == 3) c.index_put_({tensor({1})}, b.unsqueeze(0));
        Tensor loss = c.matmul(w).square().mean();
        loss.backward();
        return loss.detach();
      },
      {.fullgraph = true});
  for (int i = 0; i < 12; ++i) {
    Tensor loss = f(full({3, 4}, 0.5), i % 4);
    run.log(loss, b.grad(), w.grad());
  }
}

// The body is run once more when it turns out to call backward().
TENON_PROGRAM(ANeedIsTurnedBesideAChoice, 8) {
  Tensor w = ones({4}).requires_grad_();
  auto f = run.compile(
      [&](const Tensor& x) {
        Tensor m = cond(
            x.sum() > 0.0, [](const Tensor& a) { return a * 2.0; },
            [](const Tensor& a) { return a * 0.5; }, x);
        w.requires_grad_(!w.requires_grad());
        Tensor z = x.detach().requires_grad_();
        (m * z).sum().backward();
        return m.detach();
      },
      {.fullgraph = true});
  for (int i = 0; i < 4; ++i) {
    Tensor m = f(ones({3, 4}) - (i % 2));
    run.log(m, w.requires_grad());
  }
}

TENON_PROGRAM(AHookIsSetBesideAChoice, 8) {
  Tensor w = full({4}, 0.5).requires_grad_();
  auto f = run.compile(
      [&](const Tensor& x) {
        Tensor m = cond(
            x.sum() > 0.0, [](const Tensor& a) { return a * 0.75; },
            [](const Tensor& a) { return a + 1.0; }, x * w);
        auto update = [](const Tensor& leaf) {
          NoGradGuard no_grad;
          leaf.sub_(leaf.grad() * 0.125);
        };
        auto hook = autograd::register_post_accumulate_grad_hook(w, update);
        m.sum().backward();
        hook.remove();
        return m.detach();
      },
      {.fullgraph = true});
  for (int i = 0; i < 4; ++i) {
    w.set_grad({});
    Tensor m = f(ones({4}) - (i % 2));
    run.log(m, w, w.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
