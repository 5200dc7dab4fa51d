// What people write once the examples run: small programs that use several things at once.
#include "program.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

namespace tenon::programs {
namespace {

struct Classifier : nn::Module {
  nn::Linear in{2, 4}, out{4, 3};
  TENON_MODULE(Classifier, in, out)
  Classifier() {
    NoGradGuard no_grad;
    int i = 0;
    for (const Tensor& p : parameters()) {
      Tensor steps = (arange(p.numel()) % 5 - 2).reshape(p.sizes());
      p.copy_(steps * 0.25 + 0.125 * i++);
    }
  }
  Tensor forward(const Tensor& x) const { return out(in(x).relu()); }
};

TENON_PROGRAM(ServingWithRequestsOfAllSizes, 3) {
  Classifier net;
  net.eval();
  auto serve = run.compile([&](const Tensor& x) {
    NoGradGuard no_grad;
    Tensor logits = net(x);
    return std::pair(logits.argmax(1), logits.amax(1));
  });
  for (int64_t n : {1, 4, 7, 1, 32, 5, 4, 1, 64}) {
    auto [label, score] = serve(arange(2 * n, Dtype::f32).reshape({n, 2}) * 0.5 - double(n));
    run.log(label, score);
  }
}

TENON_PROGRAM(TrainingWithEarlyStopping, 3) {
  Classifier net;
  optim::SGD opt(net.parameters(), {.lr = 0.0625});
  auto step = run.compile(
      [&](const Tensor& x, const Tensor& y) {
        opt.zero_grad();
        Tensor loss = (net(x).sum(1) - y).square().mean();
        loss.backward();
        opt.step();
        return loss.item<float>();
      },
      state(net, opt));
  Tensor x = row({1, 0, 0, 1, 1, 1}).reshape({3, 2}), y = row({1, 2, 3});
  float best = 1e9;
  std::vector<Tensor> best_weights;
  for (int epoch = 0, bad = 0; epoch < 20 && bad < 3; ++epoch) {
    float loss = step(x, y);
    if (epoch == 4) opt.lr = 2;  // too much
    bad = loss < best ? 0 : bad + 1;
    if (loss < best) {
      best_weights.clear();
      for (const Tensor& p : net.parameters()) best_weights.push_back(p.detach().clone());
    }
    best = std::min(best, loss);
    if (epoch < 8) run.log(epoch, loss, bad);
  }
  NoGradGuard no_grad;
  for (size_t i = 0; i < best_weights.size(); ++i) net.parameters()[i].copy_(best_weights[i]);
  run.log(net(x), best);
}

TENON_PROGRAM(AStepThatSkipsBadBatches, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  int skipped = 0;
  auto step = run.compile([&](const Tensor& x) {
    w.set_grad({});
    Tensor loss = (x * w).square().sum();
    if (!std::isfinite(loss.item<float>())) {
      ++skipped;
      return loss.detach();
    }
    loss.backward();
    NoGradGuard no_grad;
    w.sub_(w.grad() * 0.0625);
    return loss.detach();
  });
  for (int i = 0; i < 8; ++i)
    run.log(step(row({i % 3 == 2 ? NAN : 1.0f, float(i % 2)})), w, skipped);
}

TENON_PROGRAM(GreedyDecodingWithACache, 6) {
  Tensor table = (arange(40) * 7 % 11 - 5).reshape({10, 4}).to(Dtype::f32) * 0.25;
  Tensor keys, values;
  auto next = run.compile([&](const Tensor& token) {
    Tensor e = table.index_select(0, token);
    keys = keys.defined() ? cat({keys, e}) : e;
    values = values.defined() ? cat({values, e * 2.0}) : e * 2.0;
    Tensor weights = keys.matmul(e.t()).relu() + 0.125;
    Tensor logits = (weights * values).sum(0).unsqueeze(0).matmul(table.t());
    return logits.argmax(1);
  });
  for (int sentence = 0; sentence < 2; ++sentence) {
    keys = values = Tensor();
    Tensor token = tensor({sentence + 1});
    for (int i = 0; i < 12; ++i) run.log(token = next(token));
  }
}

TENON_PROGRAM(AConfusionMatrixInPlace, 3) {
  Tensor counts = zeros({3, 3}, Dtype::i64);
  int64_t seen = 0;
  auto update = run.compile([&](const Tensor& predicted, const Tensor& truth) {
    Tensor flat = counts.view({9});
    flat.index_add_(0, truth * 3 + predicted, ones_like(truth));
    seen += int64_t(truth.size(0));
    return counts.diagonal().sum().to(Dtype::f32) / seen;
  });
  for (int i = 0; i < 8; ++i) {
    int64_t n = i == 7 ? 3 : 5;
    run.log(update((arange(n) + i) % 3, arange(n) * i % 3), counts, seen);
  }
}

TENON_PROGRAM(AugmentationsByDice, 8) {
  std::mt19937 dice(3);
  auto augment = run.compile([&](const Tensor& image) {
    Tensor x = image;
    if (dice() % 2) x = x.flip({1});
    if (dice() % 2) x = x.roll({1}, {0});
    return x * (0.5 + 0.25 * double(dice() % 4));
  });
  for (int i = 0; i < 30; ++i) run.log(augment(arange(12, Dtype::f32).reshape({3, 4}) + double(i)));
}

TENON_PROGRAM(ClustersUntilNothingMoves, 6) {
  Tensor data = row({0, 1, 2, 10, 11, 12, 30, 31}).unsqueeze(1);
  auto assign = run.compile([&](const Tensor& centres) {
    Tensor nearest = (data - centres.t()).abs().argmin(1);
    Tensor hot = one_hot(nearest, 3).to(Dtype::f32);
    Tensor moved = hot.t().matmul(data) / hot.sum(0).clamp_min(1.0).unsqueeze(1);
    bool same = (moved == centres).all().item<bool>();
    return std::tuple(moved, nearest, same);
  });
  Tensor centres = row({0, 1, 2}).unsqueeze(1);
  for (int i = 0; i < 20; ++i) {
    auto [moved, nearest, same] = assign(centres);
    centres = moved;
    run.log(i, centres, nearest, same);
    if (same) break;
  }
}

TENON_PROGRAM(ConjugateGradients, 4) {
  Tensor a = eye(4) * 4.0 + ones({4, 4});
  auto solve = run.compile([&](const Tensor& b, float tolerance) {
    Tensor x = zeros_like(b), r = b, p = b, rs = r.dot(r);
    int turns = 0;
    while (rs.item<float>() > tolerance && turns < 10) {
      Tensor ap = a.matmul(p), alpha = rs / p.dot(ap);
      x = x + alpha * p;
      r = r - alpha * ap;
      Tensor next = r.dot(r);
      p = r + next / rs * p;
      rs = next;
      ++turns;
    }
    return std::pair(a.matmul(x), turns);
  });
  for (int i = 0; i < 4; ++i) {
    auto [b, turns] = solve(row({8, 8, float(i), 8}), 1e-3f);
    run.log((b * 16.0).round(), turns);
  }
}

struct Transition {
  Tensor state, reward;
  int action;
};

TENON_PROGRAM(AReplayBufferAndATargetNet, 8) {
  Classifier online, target;
  std::vector<Transition> buffer;
  optim::SGD opt(online.parameters(), {.lr = 0.015625});
  auto learn = run.compile([&](const std::vector<Transition>& batch) {
    opt.zero_grad();
    std::vector<Tensor> losses;
    for (const Transition& t : batch) {
      Tensor goal = t.reward + target(t.state).detach().amax() * 0.5;
      losses.push_back((online(t.state).select(0, t.action) - goal).square());
    }
    Tensor loss = stack(losses).mean();
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (int i = 0; i < 8; ++i) {
    buffer.push_back({row({float(i % 3), 1}), full({}, float(i % 2)), i % 3});
    if (buffer.size() < 2) continue;
    run.log(learn(std::vector{buffer[size_t(i) / 2], buffer.back()}));
    if (i % 3 == 0)
      for (size_t k = 0; k < target.parameters().size(); ++k)
        target.parameters()[k].detach().copy_(online.parameters()[k].detach());
  }
  run.log(target.out.bias, online.out.bias);
}

struct Config {
  std::string activation = "relu";
  bool residual = false;
  double scale = 1;
  std::map<std::string, Tensor> weights;
};

TENON_PROGRAM(AModelMadeFromAConfiguration, 7) {
  auto model = run.compile([](const Config& c, const Tensor& x) {
    Tensor h = x.matmul(c.weights.at("w"));
    if (auto bias = c.weights.find("bias"); bias != c.weights.end()) h = h + bias->second;
    h = c.activation == "relu" ? h.relu() : h.abs();
    return c.residual ? h * c.scale + x : h * c.scale;
  });
  Config c{.weights = {{"w", row({1, -1, 2, 0.5}).reshape({2, 2})}}};
  for (int i = 0; i < 12; ++i) {
    run.log(model(c, row({1, float(i)}).unsqueeze(0)));
    if (i == 2) c.residual = true;
    if (i == 4) c.weights["bias"] = row({4, -4});
    if (i == 6) c.activation = "abs";
    c.scale = 1 + 0.5 * (i % 4);
  }
}

TENON_PROGRAM(ARunningNormalizer, 3) {
  Tensor mean = zeros({2}), spread = ones({2});
  int64_t count = 0;
  auto normalize = run.compile([&](const Tensor& batch, bool learns) {
    if (learns) {
      double rate = 1.0 / double(1 << std::min<int64_t>(count++, 3));
      mean = mean * (1 - rate) + batch.mean(0) * rate;
      spread = (batch - mean).abs().amax(0) * rate + spread * (1 - rate);
    }
    return (batch - mean) / spread;
  });
  for (int i = 0; i < 10; ++i)
    run.log(normalize(arange(4, Dtype::f32).reshape({2, 2}) * float(i + 1), i % 3 != 2), mean,
            spread);
}

TENON_PROGRAM(ASimulationWithProbes, 3) {
  Tensor now = zeros({8}), before = zeros({8});
  std::vector<Tensor> probes;
  int step = 0;
  auto advance = run.compile([&](double kick) {
    if (step == 0) now.select(0, 4).fill_(kick);
    Tensor sides = now.roll({1}) + now.roll({-1}) - now * 2.0;
    Tensor next = now * 2.0 - before + sides * 0.25;
    before = now;
    now = next;
    if (++step % 5 == 0) probes.push_back(now.slice(0, 2, 4));
  });
  for (int i = 0; i < 20; ++i) advance(1.0);
  run.log(now, probes);
}

}  // namespace
}  // namespace tenon::programs
