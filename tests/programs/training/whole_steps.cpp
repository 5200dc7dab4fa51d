// Steps of training in one body: gradients add up, are dropped and are looked at as in plain code.
#include "program.h"

namespace tenon::programs {
namespace {

struct Mlp : nn::Module {
  nn::Linear in{2, 4}, out{4, 1};
  TENON_MODULE(Mlp, in, out)
  explicit Mlp(float w = 0.25) {
    NoGradGuard no_grad;
    for (const Tensor& p : parameters()) p.fill_(w);
  }
  Tensor forward(const Tensor& x) const { return out(in(x).relu()); }
};

Tensor points(int i) { return row({1, float(i), -1, 2}).reshape({2, 2}) * 0.5; }

TENON_PROGRAM(GradientsAddUpOverCalls, 3) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor loss = (x * w * w).sum();
    loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 8; ++i) {
    run.log(f(row({1, float(i)})), w.grad());
    if (i == 4) w.set_grad({});
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(GradientsAddUpOverCalls, 3);

TENON_PROGRAM(EveryFourthCallUpdates, 4) {
  Mlp net;
  optim::SGD opt(net.parameters(), {.lr = 0.125});
  int calls = 0;
  auto step = run.compile([&](const Tensor& x) {
    Tensor loss = net(x).sum() * 0.25;
    loss.backward();
    if (++calls % 4 == 0) {
      opt.step();
      opt.zero_grad();
    }
    return loss.detach();
  });
  for (int i = 0; i < 12; ++i) run.log(step(points(i % 3)), net.in.weight, net.out.bias.grad());
}

TENON_PROGRAM(MicroBatchesInOneStep, 4) {
  Mlp net;
  optim::SGD opt(net.parameters(), {.lr = 0.125, .momentum = 0.5});
  auto step = run.compile([&](const std::vector<Tensor>& batches) {
    opt.zero_grad();
    Tensor total = zeros({});
    for (const Tensor& x : batches) {
      Tensor loss = net(x).mean() * 0.5;
      loss.backward();
      total = total + loss.detach();
    }
    opt.step();
    return total;
  });
  for (int i = 0; i < 6; ++i) run.log(step(std::vector{points(i), points(i + 1)}), net.out.weight);
}
TENON_PROGRAM_IN_ONE_GRAPH(MicroBatchesInOneStep, 2);

TENON_PROGRAM(SeveralLossesOverOneForward, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({});
    Tensor h = x * w;
    Tensor first = h.sum(), second = (h * h).sum();
    first.backward({}, true);
    Tensor after_first = w.grad().clone();
    second.backward();
    return std::pair(after_first, second.detach());
  });
  for (int i = 0; i < 4; ++i) {
    auto [g, loss] = f(row({1, float(i)}));
    run.log(g, loss, w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(SeveralLossesOverOneForward, 2);

TENON_PROGRAM(AGanTakesTurns, 6) {
  Mlp generator(0.5), critic(0.25);
  optim::SGD of_generator(generator.parameters(), {.lr = 0.125});
  optim::SGD of_critic(critic.parameters(), {.lr = 0.125});
  auto lift = [](const Tensor& t) { return cat({t, t}, 1); };
  auto critic_step = run.compile([&](const Tensor& real, const Tensor& noise) {
    of_critic.zero_grad();
    Tensor fake = lift(generator(noise)).detach();
    Tensor loss = critic(fake).mean() - critic(real).mean();
    loss.backward();
    of_critic.step();
    return loss.detach();
  });
  auto generator_step = run.compile([&](const Tensor& noise) {
    of_generator.zero_grad();
    Tensor loss = -critic(lift(generator(noise))).mean();
    loss.backward();
    of_generator.step();
    return loss.detach();
  });
  for (int i = 0; i < 4; ++i) {
    run.log(critic_step(points(i), points(i + 1)), critic.out.weight);
    run.log(generator_step(points(i)), generator.out.weight, critic.out.bias.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AGanTakesTurns, 6);

TENON_PROGRAM(AWriteToALeafThatNeedsAGradient, 3) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return w.mul_(2.0) + x; });
  auto g = run.compile([&](const Tensor& x) {
    NoGradGuard no_grad;
    w.mul_(2.0);
    return w + x;
  });
  for (int i = 0; i < 3; ++i) {
    run.log_error([&] { f(row({1, 1})); });
    run.log(w);
    run.log(g(row({1, 1})));
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AWriteToALeafThatNeedsAGradient, 3);

TENON_PROGRAM(AnArgumentIsMadeToNeedAGradient, 3) {
  auto f = run.compile([](const Tensor& x) {
    x.requires_grad_();
    return (x * x).sum();
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = row({1, float(i)});
    Tensor loss = f(x);
    run.log(loss, loss.requires_grad(), x.requires_grad());
    loss.backward();
    run.log(x.grad());
  }
}

TENON_PROGRAM(TheGradientOfAnInput, 6) {
  Mlp net;
  auto saliency = run.compile([&](const Tensor& image) {
    Tensor x = image.detach().clone().requires_grad_();
    net(x).sum().backward();
    return x.grad() * 2.0;
  });
  auto by_grad = run.compile([&](const Tensor& image) {
    Tensor x = image.detach().requires_grad_();
    return autograd::grad({net(x).sum()}, {x})[0];
  });
  for (int i = 0; i < 4; ++i) {
    for (const Tensor& p : net.parameters()) p.set_grad({});
    run.log(saliency(points(i)), by_grad(points(i)), net.out.weight.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(TheGradientOfAnInput, 3);

TENON_PROGRAM(LayersAreFrozenInTheMiddleOfTraining, 4) {
  Mlp net;
  optim::SGD opt(net.parameters(), {.lr = 0.125});
  auto step = run.compile(
      [&](const Tensor& x) {
        opt.zero_grad();
        Tensor loss = net(x).sum();
        loss.backward();
        opt.step();
        return loss.detach();
      },
      state(net, opt));
  for (int i = 0; i < 9; ++i) {
    run.log(step(points(i % 2)), net.in.weight, net.out.weight);
    net.in.weight.requires_grad_(i % 6 >= 4);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(LayersAreFrozenInTheMiddleOfTraining, 4);

TENON_PROGRAM(AMovingAverageOfTheWeights, 2) {
  Mlp net;
  std::vector<Tensor> average;
  for (const Tensor& p : net.parameters()) average.push_back(p.detach().clone());
  optim::SGD opt(net.parameters(), {.lr = 0.25, .weight_decay = 0.5});
  auto step = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    (net(x) - 1.0).square().mean().backward();
    opt.step();
    NoGradGuard no_grad;
    size_t i = 0;
    for (const Tensor& p : net.parameters()) {
      average[i].mul_(0.5).add_(p * 0.5);
      ++i;
    }
  });
  for (int i = 0; i < 4; ++i) {
    step(points(1));
    run.log(average, net.out.weight);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AMovingAverageOfTheWeights, 2);

TENON_PROGRAM(TheGradientIsZeroedInPlaceFirst, 5) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    if (w.grad().defined()) w.grad().zero_();
    (x * w).sum().backward();
    return w.grad() * 2.0;
  });
  for (int i = 0; i < 4; ++i) run.log(f(row({1, float(i)})), w, w.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(TheGradientIsZeroedInPlaceFirst, 3);

TENON_PROGRAM(ClippedGradients, 5) {
  Mlp net;
  optim::SGD opt(net.parameters(), {.lr = 0.125});
  auto step = run.compile([&](const Tensor& x) {
    opt.zero_grad(false);
    net(x).sum().backward();
    optim::clip_grad_value_(net.parameters(), 0.5);
    Tensor norm = optim::clip_grad_norm_(net.parameters(), 1.0);
    opt.step();
    return norm;
  });
  for (int i = 0; i < 5; ++i) run.log(step(points(i)), net.in.bias);
}
TENON_PROGRAM_IN_ONE_GRAPH(ClippedGradients, 3);

TENON_PROGRAM(TheForwardIsCompiledAndTheRestIsNot, 2) {
  Mlp net;
  optim::Adam opt(net.parameters(), {.lr = 0.125});
  auto forward = run.compile([&](const Tensor& x) { return net(x); });
  for (int i = 0; i < 6; ++i) {
    Tensor loss = forward(points(i % 2)).sum() + forward(points(2)).sum();
    loss.backward();
    if (i % 2) {
      opt.step();
      opt.zero_grad();
    }
    run.log(loss.detach(), net.in.weight.grad(), net.out.weight);
  }
}

TENON_PROGRAM(APenaltyOnTheGradient, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({});
    Tensor loss = (x * w * w * w).sum();
    Tensor g = autograd::grad({loss}, {w}, {.create_graph = true})[0];
    (loss + g.square().sum() * 0.5).backward();
    return g.detach();
  });
  for (int i = 0; i < 4; ++i) run.log(f(row({0.5, float(i)})), w.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(APenaltyOnTheGradient, 2);

// Of a result that has no history for it: an error, and not the answer that none is wanted.
TENON_PROGRAM(AGradientBehindAWholeStep, 4) {
  Tensor w = row({2, 1}).requires_grad_();
  auto f = run.compile(
      [&](const Tensor& x) {
        Tensor slope = autograd::grad({(x * w * w).sum()}, {w}, {.create_graph = true})[0];
        return (slope * w).sum();
      },
      {.fullgraph = true});
  for (int i = 0; i < 4; ++i) {
    Tensor y = f(row({1, float(i)}));
    try {
      auto behind = autograd::grad({y * 2.0}, {w}, {.allow_unused = i % 2 == 1});
      run.log(y.requires_grad(), behind[0].defined());
    } catch (const UserError& error) {
      bool asks_for_more =
          std::string_view(error.what()).find("allow_unused") != std::string_view::npos;
      run.log(y.requires_grad(), !asks_for_more);
    }
  }
}

// What they show is gone with the body.
TENON_PROGRAM(AStepReturnsViews, 8) {
  Tensor w = full({4}, 0.5).requires_grad_();
  auto f = run.compile(
      [&](const Tensor& x) {
        w.set_grad({});
        Tensor y = x * w;
        y.square().sum().backward();
        NoGradGuard off;
        return std::tuple(y.detach().view({-1, 2}), (x + 1)[0], y.t(), (y + w).unbind(0));
      },
      {.fullgraph = true});
  for (int i = 0; i < 6; ++i) {
    auto [a, b, c, d] = f(arange(4 * (1 + i % 3)).reshape({-1, 4}).to(Dtype::f32) * 0.25);
    a.add_(1);
    run.log(a, b, c, d[0], d.size(), w.grad());
  }
}

TENON_PROGRAM(TheGradientBetweenTwoLayersIsKept, 4) {
  Mlp net;
  auto f = run.compile([&](const Tensor& x) {
    Tensor hidden = net.in(x);
    hidden.retain_grad();
    net.out(hidden.relu()).sum().backward();
    return hidden.grad() * 2.0;
  });
  for (int i = 0; i < 4; ++i) run.log(f(points(i)), net.in.weight.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(TheGradientBetweenTwoLayersIsKept, 4);

TENON_PROGRAM(AStepOnAnArgumentThatIsCaptured, 4) {
  Tensor w = row({1, 2}).requires_grad_(), scale = row({3, 4}), other = row({5, 8});
  auto step = run.compile([&](const Tensor& x) {
    w.set_grad({});
    (x * w * scale).sum().backward();
    return w.grad() * 2.0;
  });
  run.log(step(scale), step(scale));
  run.log(step(other), step(row({0, 1})), step(scale));
  scale = other;
  run.log(step(scale), step(row({1, 1})));
}
TENON_PROGRAM_IN_ONE_GRAPH(AStepOnAnArgumentThatIsCaptured, 4);

// The gradient of a layer's weight is a view.
TENON_PROGRAM(AskedForGradientsAreLeftInTheWeights, 4) {
  Mlp net;
  auto f = run.compile([&](const Tensor& x) {
    Tensor loss = net.forward(x).square().sum();
    std::vector<Tensor> gradients = autograd::grad({loss}, {net.in.weight, net.out.weight});
    net.in.weight.set_grad(gradients[0]);
    net.out.weight.set_grad(gradients[1].t().t());
    return loss.detach();
  });
  for (int i = 0; i < 5; ++i) run.log(f(points(i)), net.in.weight.grad(), net.out.weight.grad());
}
TENON_PROGRAM_IN_ONE_GRAPH(AskedForGradientsAreLeftInTheWeights, 4);

// What a view of a weight shows is written before its gradient is asked for: it is a view of the weight
// all the same.
template <class F>
void step_over_written_weights(Run& run, F make_loss) {
  Tensor w = row({1, -2, 0.5, 4}).view({2, 2}).detach().requires_grad_();
  optim::SGD opt(std::vector<Tensor>{w}, {.lr = 0.125});
  auto step = run.compile(
      [&](const Tensor& x) {
        opt.zero_grad();
        Tensor loss = make_loss(w, x);
        loss.backward();
        opt.step();
        return loss.detach();
      },
      {.fullgraph = true});
  for (int i = 0; i < 5; ++i) run.log(step(row({1, 0.5f * float(i)})), w, w.grad());
}

TENON_PROGRAM(ARowOfAWeightIsClampedBeforeItIsUsed, 4) {
  step_over_written_weights(run, [](const Tensor& w, const Tensor& x) {
    Tensor first = w[0];
    {
      NoGradGuard off;
      first.clamp_(-0.5, 0.5);
    }
    return (first * x).sum();
  });
}

TENON_PROGRAM(AWeightIsScaledBehindItsParts, 4) {
  step_over_written_weights(run, [](const Tensor& w, const Tensor& x) {
    std::vector<Tensor> parts = w.chunk(2);
    Tensor flat = w.view({4});
    w.detach().mul_(0.5);
    return (parts[0] * x + parts[1]).square().sum() + flat.sum();
  });
}

// The hook is on the view as it was before the write, which is no part of what comes after it.
TENON_PROGRAM(AHookOnAViewOfAWeightThatIsWritten, 4) {
  step_over_written_weights(run, [&run](const Tensor& w, const Tensor& x) {
    Tensor first = w[0];
    autograd::register_hook(first, [&run](const Tensor& g) {
      run.log("hook");
      return g * 2.0;
    });
    {
      NoGradGuard off;
      w.mul_(0.5);
    }
    return (first * x).sum();
  });
}

// A step of the optimiser between the view and its use is such a write, too, in one piece.
TENON_PROGRAM(TwoStepsWithAViewOfTheWeight, 4) {
  Tensor w = row({1, -2, 0.5, 4}).view({2, 2}).detach().requires_grad_();
  optim::SGD opt(std::vector<Tensor>{w}, {.lr = 0.125});
  auto step = run.compile(
      [&](const Tensor& x) {
        Tensor first = w[0];
        autograd::register_hook(first, [](const Tensor& g) { return g * 2.0; });
        opt.zero_grad();
        (w * x).sum().backward();
        opt.step();
        opt.zero_grad();
        Tensor loss = (first * x).square().sum();
        loss.backward();
        opt.step();
        return loss.detach();
      },
      {.fullgraph = true});
  for (int i = 0; i < 4; ++i) run.log(step(row({1, 0.5f * float(i)})), w);
}

TENON_PROGRAM(AnArgumentIsScaledAndKeepsItsGradient, 4) {
  auto step = run.compile(
      [](const Tensor& w, const Tensor& x) {
        Tensor first = w[0];
        {
          NoGradGuard off;
          w.mul_(0.5);
        }
        (first * x + w[1]).square().sum().backward();
        return first.detach() * 2.0;
      },
      {.fullgraph = true});
  for (int i = 0; i < 4; ++i) {
    Tensor w = halves({2, 2}, i).requires_grad_();
    run.log(step(w, row({1, 0.5f * float(i)})), w, w.grad());
    run.log(step(w, row({1, -1})), w.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
