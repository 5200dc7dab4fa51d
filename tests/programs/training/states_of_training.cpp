// What training keeps between its steps is edited, exchanged and shared.
#include "program.h"

#include <tenon/optim/adaptive.h>

#include <map>
#include <memory>

namespace tenon::programs {
namespace {

struct Net : nn::Module {
  nn::Linear in{2, 4}, out{4, 2};
  TENON_MODULE(Net, in, out)
  explicit Net(double scale = 0.25) { set_simply(parameters(), scale); }
  Tensor forward(const Tensor& x) const { return out(in(x).relu()); }
};

Tensor batch(int i, int64_t n = 3) {
  return (arange(2 * n) % 5 - 2 + i % 3).reshape({n, 2}).to(Dtype::f32) * 0.5;
}

Tensor total(const nn::Module& module) {
  Tensor sum = zeros({});
  for (auto& p : module.parameters()) sum = sum + p.detach().sum();
  return sum;
}

TENON_PROGRAM(TwoCallablesShareAnOptimizer, 12) {
  Net net;
  optim::SGD opt(net.parameters(), {.lr = 0.0625, .momentum = 0.5});
  auto backward = run.compile([&](const Tensor& x) {
    Tensor loss = net(x).square().mean();
    loss.backward();
    return loss.detach();
  });
  auto update = run.compile([&](bool zero) {
    opt.step();
    if (zero)
      opt.zero_grad();
    else
      opt.zero_grad(false);
  });
  auto whole = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor loss = net(x).abs().sum();
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (int i = 0; i < 9; ++i) {
    if (i % 3 == 2) {
      run.log(whole(batch(i, 2 + i % 2)));
    } else {
      run.log(backward(batch(i)));
      if (i % 2) run.log(backward(batch(i + 1, 2)));
      update(i % 4 < 2);
    }
    opt.lr = i % 2 ? 0.125 : 0.0625;
    if (i == 5) opt.groups()[0].momentum = 0.25;
    run.log(total(net));
  }
}

TENON_PROGRAM(AGroupJoinsLater, 6) {
  Net net;
  optim::SGD opt(net.in.parameters(), {.lr = 0.0625});
  auto step = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor loss = net(x).square().mean();
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (int i = 0; i < 8; ++i) {
    if (i == 3) opt.add_param_group(net.out.parameters(), {.lr = 0.125, .momentum = 0.5});
    if (i == 5) net.in.weight.requires_grad_(false);
    if (i == 6) net.in.weight.requires_grad_(true);
    run.log(step(batch(i)), total(net), net.out.weight.grad().defined());
  }
}

TENON_PROGRAM(StatesAreLoadedBetweenSteps, 4) {
  Net a, b;
  {
    NoGradGuard off;
    for (auto& p : b.parameters()) p.mul_(2.0);
  }
  optim::Adam opt(a.parameters(), {.lr = 0.125});
  auto step = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor loss = a(x).square().mean();
    loss.backward();
    opt.step();
    return loss.detach();
  });
  auto copy = [](const StateDict& from) {
    StateDict to;
    for (auto& [n, t] : from) to[n] = t.detach().clone();
    return to;
  };
  StateDict saved, opt_saved;
  for (int i = 0; i < 9; ++i) {
    if (i == 2) saved = copy(a.state_dict()), opt_saved = copy(opt.state_dict());
    if (i == 4) a.load_state_dict(b.state_dict());
    if (i == 6) a.load_state_dict(saved), opt.load_state_dict(opt_saved);
    run.log((step(batch(i)) * 64).round(), (total(a) * 64).round());
  }
}

// Weight tying comes and goes.
TENON_PROGRAM(WeightsAreTiedAndUntied, 4) {
  nn::Linear a(3, 3), b(3, 3);
  set_simply(a.parameters());
  set_simply(b.parameters(), 0.5);
  auto f = run.compile([&](const Tensor& x) { return b(a(x).relu()).sum(); });
  nn::Parameter own = b.weight;
  for (int i = 0; i < 8; ++i) {
    if (i == 2) b.weight = a.weight;
    if (i == 4) b.weight = own;
    if (i == 5) std::swap(a, b);
    if (i == 6) a.bias = nn::Parameter();
    a.zero_grad();
    b.zero_grad();
    f((arange(3) + double(i % 3)).to(Dtype::f32)).backward();
    run.log(a.weight.grad(), b.weight.grad(), b.bias.grad());
  }
}

TENON_PROGRAM(AStepToTheWorstPointAndBack, 6) {
  // SAM: up to the worst point nearby, and back.
  Net net;
  optim::SGD opt(net.parameters(), {.lr = 0.0625});
  auto step = run.compile([&](const Tensor& x, double rho) {
    opt.zero_grad();
    net(x).square().mean().backward();
    std::vector<Tensor> moved;
    {
      NoGradGuard off;
      for (auto& p : net.parameters()) {
        Tensor e = p.grad().sign() * rho;
        p.add_(e);
        moved.push_back(e);
      }
    }
    opt.zero_grad();
    Tensor loss = net(x).square().mean();
    loss.backward();
    {
      NoGradGuard off;
      size_t i = 0;
      for (auto& p : net.parameters()) p.sub_(moved[i++]);
    }
    opt.step();
    return loss.detach();
  });
  for (int i = 0; i < 5; ++i) run.log(step(batch(i), i % 2 ? 0.125 : 0.25), total(net));
}

TENON_PROGRAM(GradientsAreSetByHand, 12) {
  Net net;
  optim::SGD opt(net.parameters(), {.lr = 0.0625});
  auto step = run.compile([&](const Tensor& x, int which) {
    Tensor loss = net(x).square().mean();
    std::vector<Tensor> ps = net.parameters();
    std::vector<Tensor> gs = autograd::grad({loss}, ps);
    for (size_t i = 0; i < ps.size(); ++i)
      ps[i].set_grad(which == 0 ? gs[i] : which == 1 ? gs[i].sign() : gs[i] * 0.5);
    opt.step();
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i) run.log(step(batch(i), i % 3), total(net), net.in.weight.grad());
}

TENON_PROGRAM(GradientsOfEachSample, 10) {
  // Gradients of each sample.
  Net net;
  auto per_sample = run.compile([&](const Tensor& x) {
    std::vector<Tensor> norms;
    for (int i = 0; i < int(x.size(0)); ++i) {
      auto gs = autograd::grad({net(x[i]).square().sum()}, net.parameters());
      Tensor n = zeros({});
      for (auto& g : gs) n = n + g.abs().sum();
      norms.push_back(n);
    }
    return stack(norms);
  });
  for (int i = 0; i < 5; ++i) run.log(per_sample(batch(i, 1 + i % 3)));
}

TENON_PROGRAM(TheCurvatureAlongADirection, 4) {
  Tensor w = row({1, 2, 3}).requires_grad_();
  auto hvp = run.compile([&](const Tensor& x, const Tensor& v) {
    Tensor y = (w * x).square().sum() + (w * w * w).sum();
    Tensor g = autograd::grad({y}, {w}, {.create_graph = true})[0];
    return autograd::grad({(g * v).sum()}, {w})[0];
  });
  Tensor v = ones({3});
  for (int i = 0; i < 5; ++i) {
    Tensor next = hvp(row({1, float(i), 0.5}), v);
    run.log(next);
    v = next / next.abs().max();
    if (i == 2) w = (w.detach() * 0.5).requires_grad_();
  }
}

TENON_PROGRAM(RowsOfAJacobian, 10) {
  Tensor w = row({1, 2, 3, 4}).reshape({2, 2}).requires_grad_();
  auto jacobian = run.compile([&](const Tensor& x) {
    Tensor y = x.matmul(w).square();
    std::vector<Tensor> rows;
    for (int i = 0; i < int(y.numel()); ++i)
      rows.push_back(autograd::grad({y.flatten()[i]}, {w}, {.retain_graph = true})[0].flatten());
    return stack(rows);
  });
  for (int i = 0; i < 4; ++i) run.log(jacobian(batch(i, 1 + i % 2)));
}

TENON_PROGRAM(ANetThatGrowsInTheBody, 20) {
  // A net that grows hidden units in the body.
  Tensor w1 = row({1, -1, 0.5, 2}).reshape({2, 2}).requires_grad_(),
         w2 = row({1, 0.5}).reshape({2, 1}).requires_grad_();
  auto step = run.compile([&](const Tensor& x, bool grow) {
    if (grow) {
      w1 = cat({w1.detach(), ones({2, 1}) * 0.5}, 1).requires_grad_();
      w2 = cat({w2.detach(), ones({1, 1}) * 0.25}).requires_grad_();
    }
    Tensor loss = x.matmul(w1).relu().matmul(w2).square().mean();
    loss.backward();
    NoGradGuard off;
    for (Tensor* w : {&w1, &w2}) {
      w->sub_(w->grad() * 0.0625);
      w->set_grad({});
    }
    return loss.detach();
  });
  for (int i = 0; i < 7; ++i) run.log(step(batch(i), i == 2 || i == 4), w1, w2);
}

TENON_PROGRAM(TwoAveragesOfTheWeights, 6) {
  Net net;
  Tensor ema = zeros({4, 2});
  std::vector<Tensor> swa;
  optim::SGD opt(net.parameters(), {.lr = 0.125});
  int n = 0;
  auto step = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor loss = net(x).square().mean();
    loss.backward();
    opt.step();
    NoGradGuard off;
    ema.lerp_(net.in.weight, 0.25);
    if (++n % 3 == 0) {
      if (swa.empty())
        for (auto& p : net.parameters()) swa.push_back(p.detach().clone());
      else
        for (size_t i = 0; i < swa.size(); ++i) swa[i].add_((net.parameters()[i] - swa[i]) * 0.5);
    }
    return loss.detach();
  });
  for (int i = 0; i < 8; ++i) {
    run.log(step(batch(i)), ema);
    if (!swa.empty()) run.log(swa[0], swa[3]);
    if (i == 5) {
      NoGradGuard off;
      for (size_t k = 0; k < swa.size(); ++k) net.parameters()[k].copy_(swa[k]);
    }
  }
}

TENON_PROGRAM(AHeadIsExchanged, 8) {
  // Fine-tuning: the head is replaced by one with more classes, the body frozen, then thawed.
  nn::Linear body(2, 3);
  auto head = std::make_shared<nn::Linear>(3, 2);
  set_simply(body.parameters());
  set_simply(head->parameters());
  std::unique_ptr<optim::SGD> opt =
      std::make_unique<optim::SGD>(body.parameters(), optim::SGDOptions{.lr = 0.0625});
  auto step = run.compile([&](const Tensor& x) {
    body.zero_grad();
    head->zero_grad();
    Tensor loss = (*head)(body(x).relu()).square().mean();
    loss.backward();
    opt->step();
    return loss.detach();
  });
  for (int i = 0; i < 9; ++i) {
    if (i == 2) {
      head = std::make_shared<nn::Linear>(3, 4);
      set_simply(head->parameters(), 0.5);
      body.requires_grad_(false);
      opt = std::make_unique<optim::SGD>(head->parameters(),
                                         optim::SGDOptions{.lr = 0.125, .momentum = 0.5});
    }
    if (i == 5) {
      body.requires_grad_(true);
      auto all = head->parameters();
      for (auto& p : body.parameters()) all.push_back(p);
      opt = std::make_unique<optim::SGD>(all, optim::SGDOptions{.lr = 0.0625});
    }
    run.log(step(batch(i)), total(body), total(*head));
  }
}

TENON_PROGRAM(AScaleThatFollowsTheGradients, 6) {
  // A scaler with skipped steps and a growth interval, all in the body.
  Net net;
  optim::SGD opt(net.parameters(), {.lr = 0.0625});
  Tensor scale = full({}, 8.0);
  int good = 0;
  auto step = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor loss = net(x).square().mean();
    (loss * scale).backward();
    Tensor bad = zeros({}, Dtype::bool_);
    for (auto& p : net.parameters()) {
      p.grad().div_(scale);
      bad = bad | ~p.grad().isfinite().all();
    }
    if (bad.item<bool>()) {
      scale.mul_(0.5);
      good = 0;
    } else {
      opt.step();
      if (++good == 2) scale.mul_(2.0), good = 0;
    }
    return loss.detach();
  });
  for (int i = 0; i < 7; ++i)
    run.log(step(i % 3 == 1 ? batch(i) / 0.0 : batch(i)), scale, good, total(net));
}

TENON_PROGRAM(OptimizersByName, 6) {
  Net net;
  std::map<std::string, std::unique_ptr<optim::Optimizer>> opts;
  opts["sgd"] = std::make_unique<optim::SGD>(net.parameters(), optim::SGDOptions{.lr = 0.0625});
  opts["rms"] =
      std::make_unique<optim::RMSprop>(net.parameters(), optim::RMSpropOptions{.lr = 0.03125});
  opts["ada"] =
      std::make_unique<optim::Adagrad>(net.parameters(), optim::AdagradOptions{.lr = 0.0625});
  auto step = run.compile([&](const Tensor& x, const std::string& name) {
    auto& opt = *opts.at(name);
    opt.zero_grad();
    Tensor loss = net(x).square().mean();
    loss.backward();
    opt.step();
    return loss.detach();
  });
  const char* names[] = {"sgd", "rms", "ada", "sgd", "ada", "rms"};
  for (int i = 0; i < 9; ++i) {
    run.log_error([&] { run.log((step(batch(i), i == 7 ? "none" : names[i % 6]) * 64).round()); });
    run.log((total(net) * 64).round());
  }
}

TENON_PROGRAM(GradientsAreEditedInTheBody, 8) {
  // Gradients of captured leaves: read, cleared, replaced, kept in the body.
  Tensor w = row({1, 2}).requires_grad_();
  Tensor kept;
  auto f = run.compile([&](const Tensor& x, int how) {
    Tensor y = (w * w * x).sum();
    y.backward();
    if (how == 0) w.set_grad({});
    if (how == 1) w.grad().mul_(0.5);
    if (how == 2) kept = w.grad();
    if (how == 3) w.set_grad(w.grad().clone() * 2.0);
    if (how == 4 && kept.defined()) kept.add_(w.grad());
    if (how == 5) w.set_grad(x);
    return w.grad().defined() ? w.grad() * 1.0 : x;
  });
  for (int i = 0; i < 14; ++i) {
    run.log(f(row({1, float(i)}), (i * 5) % 6), w.grad(), kept);
    if (i == 7) w = (w.detach() + 1.0).requires_grad_();
    if (i == 9) w.set_grad({});
  }
}

TENON_PROGRAM(StatesOfTheOptimizerAreEdited, 10) {
  // An optimiser whose states are cleared, edited and shared in bodies.
  Tensor w = row({1, 2}).requires_grad_(), v = row({3, 1}).requires_grad_();
  optim::SGD opt({w, v}, {.lr = 0.125, .momentum = 0.5});
  auto f = run.compile([&](const Tensor& x, int how) {
    opt.zero_grad();
    Tensor l = ((w + v) * x).square().mean();
    l.backward();
    auto& group = opt.groups()[0];
    if (how == 1)
      for (auto& s : group.slots)
        for (auto& t : s.state) t.zero_();
    if (how == 2) group.lr = double(group.lr) * 0.5;
    if (how == 3) v.set_grad({});
    if (how == 4) group.momentum = 0.25;
    opt.step();
    if (how == 5) group.slots[0].state[0].copy_(group.slots[1].state[0]);
    return l.detach();
  });
  for (int i = 0; i < 12; ++i) run.log(f(row({1, float(i % 3)}), i % 6), w, v, double(opt.lr));
}

TENON_PROGRAM(AModelIsFittedInTheBody, 8) {
  auto fit = run.compile([](const Tensor& x, const Tensor& y, int epochs) {
    Tensor w = zeros({2, 1}).requires_grad_();
    optim::SGD opt({w}, {.lr = 0.0625, .momentum = 0.5});
    for (int i = 0; i < epochs; ++i) {
      opt.zero_grad();
      (x.matmul(w) - y).square().mean().backward();
      opt.step();
    }
    return w.detach();
  });
  for (int i = 0; i < 5; ++i) run.log(fit(halves({4, 2}, i), halves({4, 1}, i + 1), 1 + i % 3));
}

TENON_PROGRAM(ACopyIsFittedInTheBody, 12) {
  Net base;
  auto adapt = run.compile([&](const Tensor& x, int n) {
    Net copy = base;
    for (auto* l : {&copy.in, &copy.out}) {
      l->weight = nn::Parameter(l->weight.detach().clone());
      l->bias = nn::Parameter(l->bias.detach().clone());
    }
    optim::SGD opt(copy.parameters(), {.lr = 0.125});
    for (int i = 0; i < n; ++i) {
      opt.zero_grad();
      copy(x).square().mean().backward();
      opt.step();
    }
    NoGradGuard off;
    auto to = base.parameters(), from = copy.parameters();
    for (size_t i = 0; i < to.size(); ++i) to[i].lerp_(from[i], 0.5);
    return copy(x).sum();
  });
  for (int i = 0; i < 5; ++i) run.log(adapt(halves({3, 2}, i), 1 + i % 2), base.in.weight);
}

TENON_PROGRAM(LossesAreKept, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    return std::tuple(h, h, h.sum(), (h > 1), h.detach(), w);
  });
  std::vector<Tensor> losses;
  for (int i = 0; i < 6; ++i) {
    auto [a, b, s, m, d, same] = f(row({1, float(i)}));
    run.log(a.detach(), m, d, same.is_same(w), a.is_same(b), s.requires_grad());
    if (i % 3 == 0) losses.push_back(a.sum() + b.square().sum());
    if (i % 3 == 1) losses.push_back(s);
    if (i % 3 == 2) {
      s.backward();
      run.log_error([&, s = s] { s.backward(); });
    }
  }
  stack(losses).sum().backward();
  run.log(w.grad());
}

TENON_PROGRAM(ATargetFollows, 8) {
  Net net, target(0.5);
  optim::SGD opt(net.parameters(), {.lr = 0.0625});
  int n = 0;
  auto step = run.compile([&](const Tensor& x) {
    Tensor goal;
    {
      NoGradGuard off;
      goal = target(x) + 0.5;
    }
    opt.zero_grad(n % 2 == 0);
    Tensor loss = (net(x) - goal).square().mean();
    loss.backward();
    opt.step();
    if (++n % 3 == 0) target.load_state_dict(net.state_dict());
    NoGradGuard off;
    auto to = target.parameters(), from = net.parameters();
    for (size_t i = 0; i < to.size(); ++i) to[i].lerp_(from[i], 0.25);
    return std::pair(loss.detach(), target(x).sum());
  });
  for (int i = 0; i < 7; ++i) {
    auto [a, b] = step(halves({3, 2}, i));
    run.log(a, b, (target.in.weight * 4096).round());
  }
}

}  // namespace
}  // namespace tenon::programs
