// Training runs that change on the way: optimisers, dtypes, frozen layers, accumulation, rows of a
// table, precision, loops of two nets, copies in threads.
#include "program.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>

namespace tenon::programs {
namespace {

struct Net : nn::Module {
  nn::Linear in{2, 4}, out{4, 2};
  nn::BatchNorm1d norm{4};
  nn::Dropout drop{0.5};
  TENON_MODULE(Net, in, norm, drop, out)
  Net() { set_simply(parameters()); }
  Tensor forward(const Tensor& x) { return out(drop(norm(in(x)).relu())); }
};

Tensor rows(int i, int64_t n = 4) {
  return ((arange(2 * n) * (i + 2)) % 5 - 2).reshape({n, 2}).to(Dtype::f32) * 0.5;
}
// Three digits: the order of sums may differ.
Tensor about(const Tensor& t) { return (t.detach().to(Dtype::f32) * 256.0).round(); }

TENON_PROGRAM(OptimisersAreSwitched, 12) {
  nn::Linear net(2, 2);
  set_simply(net.parameters());
  std::unique_ptr<optim::Optimizer> opt =
      std::make_unique<optim::SGD>(net.parameters(), optim::SGDOptions{.lr = 0.125});
  auto step = run.compile([&](const Tensor& x) {
    opt->zero_grad();
    Tensor loss = net(x).square().mean();
    loss.backward();
    opt->step();
    return loss.detach();
  });
  StateDict saved;
  for (int i = 0; i < 14; ++i) {
    if (i == 3)
      opt = std::make_unique<optim::Adam>(net.parameters(), optim::AdamOptions{.lr = 0.25});
    if (i == 6) {
      for (const auto& [name, t] : opt->state_dict()) saved[name] = t.clone();
      opt = std::make_unique<optim::SGD>(
          net.parameters(), optim::SGDOptions{.lr = 0.0625, .momentum = 0.5, .nesterov = true});
    }
    if (i == 9) {
      opt = std::make_unique<optim::Adam>(net.parameters(), optim::AdamOptions{.lr = 0.25});
      opt->load_state_dict(saved);
    }
    if (i == 11) opt->lr = 0.0;
    run.log(i, about(step(rows(i, 3 + i % 2))), about(net.weight), about(net.bias));
  }
}

TENON_PROGRAM(GradientsOfBatchesThatShrinkAddUp, 16) {
  Net net;
  net.norm.eval();
  net.drop.eval();
  optim::SGD opt(net.parameters(), {.lr = 0.0625, .momentum = 0.5});
  auto add = run.compile([&](const Tensor& x, double share) {
    Tensor loss = (net(x) - 1.0).square().mean() * share;
    loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i) {
    opt.zero_grad(i % 2 == 0);
    for (int64_t n : {6, 4, 1, 4}) {
      if (i == 3 && n == 1) continue;
      run.log(i, n, about(add(rows(i, n), double(n) / 16)));
    }
    if (i == 2) net.in.requires_grad_(false);
    if (i == 4) net.in.requires_grad_(true);
    if (i == 3) net.in.bias.set_grad(ones({4}));  // stays where nothing adds to it
    opt.step();
    run.log(about(net.in.bias), about(net.out.weight),
            net.in.weight.grad().defined() ? about(net.in.weight.grad()) : Tensor(zeros({1})));
  }
}

TENON_PROGRAM(EvaluationBetweenStepsWithDropoutAndStatistics, 24) {
  Net net, best;
  optim::SGD opt(net.parameters(), {.lr = 0.03125});
  auto loss_of = run.compile([&](const Tensor& x) { return net(x).square().mean(); });
  auto score = run.compile([&](const Tensor& x) { return net(x).sum(1); });
  for (int i = 0; i < 9; ++i) {
    net.train();
    manual_seed(uint64_t(i));
    opt.zero_grad();
    Tensor loss = loss_of(rows(i));
    loss.backward();
    opt.step();
    net.eval();
    if (i % 3 == 0) {
      InferenceMode inference;
      run.log("inference", about(score(rows(i, 3))));
    } else if (i % 3 == 1) {
      NoGradGuard no_grad;
      run.log("no grad", about(score(rows(i, 2))), about(loss_of(rows(i, 2))));
    } else {
      run.log("with grad", about(score(rows(i, 3))), loss_of(rows(1)).requires_grad());
    }
    if (i == 2)
      for (auto& [name, t] : best.state_dict())
        t.detach().copy_(net.state_dict().at(name).detach());
    if (i == 5) net.load_state_dict(best.state_dict());
    if (i == 6) net.norm.requires_grad_(false);
    run.log(about(loss), about(net.norm.running_mean), net.norm.num_batches_tracked);
  }
}

TENON_PROGRAM(RowsOfATableAreTrained, 16) {
  Tensor table = ((arange(12) % 5 - 2) * 0.25).reshape({6, 2}).to(Dtype::f32).requires_grad_();
  Tensor counts = zeros({6});
  auto step = run.compile([&](const Tensor& ids, double lr) {
    Tensor e = embedding(table, ids);
    Tensor loss = (e.sum(1) - 1.0).square().sum();
    Tensor grad = autograd::grad({loss}, {table})[0];
    counts.index_add_(0, ids, ones({int64_t(ids.size(0))}));
    NoGradGuard no_grad;
    Tensor touched = counts.gt(0).unsqueeze(1);
    table.sub_(where(touched, grad * lr, zeros_like(grad)));
    return std::pair(loss.detach(), ids.ne(ids.roll({1}, {0})).sum());
  });
  for (int i = 0; i < 8; ++i) {
    Tensor ids = (arange(3 + i % 3) * (i + 1)) % 6;
    auto [loss, n] = step(ids, i < 4 ? 0.125 : 0.0625);
    run.log(about(loss), n, about(table), counts);
    if (i == 3) counts.zero_();
    if (i == 5) {  // the table grows
      NoGradGuard no_grad;
      table = cat({table.detach(), ones({2, 2})}).requires_grad_();
      counts = cat({counts, zeros({2})});
    }
  }
}

TENON_PROGRAM(PrecisionIsSwitchedOnTheWay, 20) {
  nn::Linear a(2, 4), b(4, 2);
  set_simply(a.parameters());
  set_simply(b.parameters());
  std::vector<Tensor> all = a.parameters();
  for (const Tensor& p : b.parameters()) all.push_back(p);
  optim::SGD opt(all, {.lr = 0.0625});
  auto step = run.compile([&](const Tensor& x, bool lowers) {
    opt.zero_grad();
    Tensor y;
    {
      std::optional<AutocastGuard> autocast;
      if (lowers) autocast.emplace();
      y = b(a(x).relu());
    }
    Tensor loss = y.to(Dtype::f32).abs().sum();
    (loss * 4.0).backward();
    for (const Tensor& p : all) p.grad().mul_(0.25);
    opt.step();
    return std::pair(loss.detach(), y.dtype() == Dtype::bf16);
  });
  for (int i = 0; i < 9; ++i) {
    auto [loss, lowered] = step(rows(i), i % 3 != 0);
    run.log(i, lowered, (loss * 2.0).round(), (a.weight.detach() * 8.0).round());
    NoGradGuard no_grad;
    if (i == 4) b.weight.copy_(b.weight * 0.5);
  }
}

TENON_PROGRAM(TwoThreadsTrainTwoCopies, 12) {
  auto train = [&](int t) {
    nn::Linear net(2, 2);
    set_simply(net.parameters(), t % 2 ? 0.5 : 0.25);
    optim::SGD opt(net.parameters(), {.lr = 0.0625, .momentum = 0.5});
    auto step = run.compile([&](const Tensor& x) {
      opt.zero_grad();
      Tensor loss = net(x).square().mean();
      loss.backward();
      opt.step();
      return loss.detach();
    });
    std::vector<Tensor> losses;
    for (int i = 0; i < 20; ++i) {
      losses.push_back(about(step(rows(i + t, 2 + i % 3))));
      if (i == 7) net.bias.requires_grad_(false);
      if (i == 12) net.bias.requires_grad_(true);
      NoGradGuard no_grad;
      if (i == 10) net.weight.copy_(net.weight * 0.5);
    }
    losses.push_back(about(net.weight));
    losses.push_back(about(net.bias));
    return losses;
  };
  std::vector<std::vector<Tensor>> results(2);
  in_threads(2, [&](int t) { results[size_t(t)] = train(t); });
  for (const auto& r : results)
    for (const Tensor& l : r) run.log(l);
}

// Two nets, an encoder that both use, and an optimiser each; the encoder is frozen for one of them.
TENON_PROGRAM(TwoTasksShareAnEncoder, 16) {
  nn::Linear encoder(2, 3), left(3, 1), right(3, 2);
  for (nn::Module* m : std::vector<nn::Module*>{&encoder, &left, &right})
    set_simply(m->parameters());
  auto with = [](const nn::Linear& head, const nn::Linear& body) {
    std::vector<Tensor> all = body.parameters();
    for (const Tensor& p : head.parameters()) all.push_back(p);
    return all;
  };
  optim::SGD first(with(left, encoder), {.lr = 0.0625});
  optim::SGD second(right.parameters(), {.lr = 0.125});
  auto step = run.compile([&](const Tensor& x, int task) {
    optim::Optimizer& opt = task == 0 ? static_cast<optim::Optimizer&>(first) : second;
    opt.zero_grad();
    Tensor h = encoder(x).relu();
    if (task == 1) h = h.detach();
    Tensor loss = (task == 0 ? left(h) : right(h)).square().mean();
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (int i = 0; i < 10; ++i) {
    run.log(i, about(step(rows(i, 2 + i % 3), i % 3 == 1)), about(encoder.weight),
            about(right.weight), about(left.bias));
    if (i == 4) {
      NoGradGuard no_grad;
      encoder.bias.copy_(encoder.bias * 0.5);
    }
    if (i == 6) encoder.requires_grad_(false), left.bias.requires_grad_(false);
    if (i == 8) encoder.requires_grad_(true);
  }
}

// An error in a step, between backward and update, and another try from the state before.
TENON_PROGRAM(AStepIsTriedAgainFromTheStateBefore, 12) {
  nn::Linear net(2, 2);
  set_simply(net.parameters());
  optim::SGD opt(net.parameters(), {.lr = 0.5, .momentum = 0.5});
  int calls = 0;
  auto step = run.compile([&](const Tensor& x) {
    ++calls;
    Tensor loss = net(x).square().sum();
    loss.backward();
    float worst = std::max(net.weight.grad().abs().max().item<float>(), 0.0f);
    if (worst > 8) throw std::overflow_error("a gradient of " + std::to_string(int(worst)));
    opt.step();
    opt.zero_grad();
    return loss.detach();
  });
  for (int i = 0; i < 8; ++i) {
    StateDict net_before, opt_before;
    for (const auto& [name, t] : net.state_dict()) net_before[name] = t.detach().clone();
    for (const auto& [name, t] : opt.state_dict()) opt_before[name] = t.clone();
    Tensor x = rows(i, 2 + i % 2) * (i % 3 == 2 ? 4.0 : 1.0);
    for (int attempt = 0; attempt < 6; ++attempt) {
      try {
        run.log(i, attempt, about(step(x)), calls);
        break;
      } catch (const std::overflow_error& error) {
        run.log(error.what(), about(net.weight));
        net.load_state_dict(net_before);
        opt.load_state_dict(opt_before);
        opt.zero_grad();
        x = x * 0.5;
      }
    }
    run.log(about(net.weight), about(net.bias));
  }
}

}  // namespace
}  // namespace tenon::programs
