// Training that keeps a second set of weights: averages that are swapped in and out, masters of
// rounded copies, steps that are tried and taken back, adapters, teachers, inner loops.
#include "program.h"

#include <algorithm>
#include <utility>

namespace tenon::programs {
namespace {

struct Net : nn::Module {
  nn::Linear in{2, 4}, out{4, 2};
  TENON_MODULE(Net, in, out)
  Net() { set_simply(parameters()); }
  Tensor forward(const Tensor& x) const { return out(in(x).relu()); }
};

Tensor batch(int i, int64_t n = 3) { return (arange(2 * n) % 5 - 2 + i % 3).reshape({n, 2}) * 0.5; }

TENON_PROGRAM(AnAverageIsSwappedInAndOut, 4) {
  Net net;
  optim::SGD opt(net.parameters(), {.lr = 0.125});
  std::vector<Tensor> average;
  for (const Tensor& p : net.parameters()) average.push_back(p.detach().clone());
  auto loss_of = run.compile([&](const Tensor& x) { return net(x).square().mean(); });
  auto update = run.compile([&] {
    NoGradGuard no_grad;
    auto from = net.parameters();
    for (size_t i = 0; i < from.size(); ++i) average[i].mul_(0.75).add_(from[i] * 0.25);
  });
  auto swap = [&] {
    NoGradGuard no_grad;
    auto to = net.parameters();
    for (size_t i = 0; i < to.size(); ++i) {
      Tensor kept = to[i].clone();
      to[i].copy_(average[i]);
      average[i].copy_(kept);
    }
  };
  for (int i = 0; i < 6; ++i) {
    opt.zero_grad();
    loss_of(batch(i)).backward();
    opt.step();
    update();
    if (i % 2 == 0) continue;
    swap();
    {
      InferenceMode inference;
      run.log("average", loss_of(batch(0, 2)));
    }
    swap();
    run.log("own", loss_of(batch(0, 2)).detach(), average[0].sum());
  }
}

// Rounded weights compute, masters in f32 take the steps.
TENON_PROGRAM(MastersOfRoundedWeights, 8) {
  Net masters, rounded;
  rounded.to(Dtype::bf16);
  optim::SGD opt(masters.parameters(), {.lr = 0.0625, .momentum = 0.5});
  auto backward = run.compile([&](const Tensor& x) {
    Tensor loss = rounded(x.to(Dtype::bf16)).to(Dtype::f32).abs().mean();
    (loss * 8.0).backward();
    return loss.detach();
  });
  auto step = run.compile([&] {
    auto from = rounded.parameters(), to = masters.parameters();
    for (size_t i = 0; i < to.size(); ++i) {
      to[i].set_grad(from[i].grad().to(Dtype::f32) * 0.125);
      from[i].set_grad({});
    }
    opt.step();
    NoGradGuard no_grad;
    for (size_t i = 0; i < to.size(); ++i) from[i].copy_(to[i]);
  });
  for (int i = 0; i < 5; ++i) {
    backward(batch(i));
    step();
    run.log(
        i, rounded.out.bias.detach().dtype() == Dtype::bf16,
        (rounded.out.bias.detach().to(Dtype::f32) - masters.out.bias.detach()).abs().max() < 0.01);
  }
}

// Up the slope, the gradient there, back, and down by it.
TENON_PROGRAM(AStepIsTriedAndTakenBack, 4) {
  Net net;
  optim::SGD opt(net.parameters(), {.lr = 0.0625});
  std::vector<Tensor> moved;
  auto backward = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor loss = net(x).square().mean();
    loss.backward();
    return loss.detach();
  });
  auto climb = run.compile([&](double radius) {
    NoGradGuard no_grad;
    moved.clear();
    for (const Tensor& p : net.parameters()) {
      moved.push_back(p.grad().sign() * radius);
      p.add_(moved.back());
    }
  });
  for (int i = 0; i < 5; ++i) {
    Tensor before = backward(batch(i));
    climb(i < 3 ? 0.0625 : 0.03125);
    Tensor above = backward(batch(i));
    {
      NoGradGuard no_grad;
      auto p = net.parameters();
      for (size_t k = 0; k < p.size(); ++k) p[k].sub_(moved[k]);
    }
    opt.step();
    run.log(before, above, net.out.bias);
  }
}

// A frozen layer with a narrow one beside it, which is merged into it for serving and taken out again.
TENON_PROGRAM(AnAdapterIsMergedAndTakenOut, 6) {
  nn::Linear base(4, 4);
  set_simply(base.parameters());
  base.requires_grad_(false);
  Tensor down = (arange(8) % 3 - 1).to(Dtype::f32).reshape({2, 4}).requires_grad_();
  Tensor up = zeros({4, 2}).requires_grad_();
  bool merged = false;
  auto forward = run.compile([&](const Tensor& x) {
    Tensor y = base(x);
    return merged ? y : y + matmul(matmul(x, down.t()), up.t()) * 0.5;
  });
  auto merge = run.compile([&](double sign) {
    NoGradGuard no_grad;
    base.weight.add_(matmul(up, down) * (0.5 * sign));
  });
  optim::SGD opt({down, up}, {.lr = 0.03125});
  Tensor x = (arange(12) % 5 - 2).to(Dtype::f32).reshape({3, 4}) * 0.25;
  for (int i = 0; i < 4; ++i) {
    opt.zero_grad();
    forward(x).square().mean().backward();
    opt.step();
    merge(1.0);
    merged = true;
    Tensor served = forward(x).detach();
    merge(-1.0);
    merged = false;
    run.log((served - forward(x).detach()).abs().max() < 1e-5, up.detach(),
            base.weight.grad().defined());
  }
}

TENON_PROGRAM(APupilLearnsFromATeacherThatFollows, 4) {
  Net teacher, pupil;
  set_simply(teacher.parameters(), 0.5);
  optim::SGD opt(pupil.parameters(), {.lr = 0.125});
  auto step = run.compile(
      [&](const Tensor& x, const Tensor& heat) {
        Tensor soft;
        {
          NoGradGuard no_grad;
          soft = softmax(teacher(x) / heat, -1);
        }
        opt.zero_grad();
        Tensor loss = -(soft * log_softmax(pupil(x) / heat, -1)).sum(-1).mean() * heat * heat;
        loss.backward();
        opt.step();
        return loss.detach();
      },
      state(teacher, pupil, opt));
  for (int i = 0; i < 6; ++i) {
    run.log(step(batch(i), tensor(i < 3 ? 2.0f : 4.0f)));
    if (i % 2 == 0) continue;
    NoGradGuard no_grad;
    auto from = pupil.parameters(), to = teacher.parameters();
    for (size_t k = 0; k < to.size(); ++k) to[k].lerp_(from[k], 0.125);
  }
}

// The gradient of what a net loses after a step of its own: derivatives of derivatives.
TENON_PROGRAM(AnInnerStepIsDifferentiated, 4) {
  Tensor w = row({0.5, -1, 2}).requires_grad_();
  auto loss_at = [](const Tensor& weight, const Tensor& x) {
    return ((x * weight).sum() - 1.0).square();
  };
  auto outer = run.compile([&](const Tensor& x, const Tensor& y) {
    Tensor slope = autograd::grad({loss_at(w, x)}, {w}, {.create_graph = true})[0];
    return loss_at(w - slope * 0.0625, y);
  });
  for (int i = 0; i < 5; ++i) {
    w.set_grad({});
    Tensor loss = outer(row({1, float(i), 0.5}), row({0.5, 1, float(-i)}));
    loss.backward();
    run.log(loss, w.grad());
    NoGradGuard no_grad;
    w.sub_(w.grad().clamp(-1, 1) * 0.125);
  }
}

// Layers keep only their inputs and are run again on the way back.
TENON_PROGRAM(ACheckpointByHand, 6) {
  Net first, second;
  auto run_first = run.compile([&](const Tensor& x) { return first(x).relu(); });
  auto run_second = run.compile([&](const Tensor& x) { return second(x).square().sum(); });
  for (int i = 0; i < 4; ++i) {
    for (Net* net : {&first, &second}) net->zero_grad();
    Tensor x = batch(i, 2 + i % 2), middle;
    {
      NoGradGuard no_grad;
      middle = run_first(x);
    }
    Tensor start = middle.detach().requires_grad_();
    run_second(start).backward();
    run_first(x).backward(start.grad());
    run.log(first.in.weight.grad(), second.out.bias.grad());
  }
}

TENON_PROGRAM(StepsAheadAndBack, 4) {
  Net net;
  optim::SGD fast(net.parameters(), {.lr = 0.125, .momentum = 0.5});
  std::vector<Tensor> slow;
  for (const Tensor& p : net.parameters()) slow.push_back(p.detach().clone());
  auto step = run.compile(
      [&](const Tensor& x) {
        fast.zero_grad();
        Tensor loss = net(x).square().mean();
        loss.backward();
        fast.step();
        return loss.detach();
      },
      state(net, fast));
  auto meet = run.compile([&] {
    NoGradGuard no_grad;
    auto p = net.parameters();
    for (size_t i = 0; i < p.size(); ++i) {
      slow[i].lerp_(p[i], 0.5);
      p[i].copy_(slow[i]);
    }
  });
  for (int i = 0; i < 9; ++i) {
    Tensor loss = step(batch(i));
    if (i % 3 == 2) meet();
    run.log(loss, slow[3]);
  }
}

// Weights below a bound are masked away, in turns with training of the rest.
TENON_PROGRAM(WeightsArePrunedAndGrowAgain, 4) {
  Net net;
  optim::SGD opt(net.parameters(), {.lr = 0.125});
  Tensor mask = ones({4, 2});
  auto loss_of = run.compile([&](const Tensor& x) {
    Tensor hidden = linear(x, net.in.weight * mask, net.in.bias).relu();
    return (net.out(hidden) - 0.5).square().mean();
  });
  for (int i = 0; i < 8; ++i) {
    opt.zero_grad();
    Tensor loss = loss_of(batch(i));
    loss.backward();
    opt.step();
    NoGradGuard no_grad;
    if (i == 2) mask.copy_(net.in.weight.abs() > 0.3);
    if (i == 5) mask = ones({4, 2});
    run.log(loss, net.in.weight, mask.sum());
  }
}

}  // namespace
}  // namespace tenon::programs
