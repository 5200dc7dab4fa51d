// Small projects of the second month: several models, optimizers and states over many steps.
#include "training/small_nets.h"

#include <tenon/autocast.h>
#include <tenon/optim.h>

#include <map>

namespace tenon::programs {
namespace {

Tensor on_the_sphere(const Tensor& t) { return t / t.square().sum({1}, true).add(0.125).sqrt(); }

// Two networks, two optimizers, one step each; labels are smoothed every third call.
TENON_PROGRAM(MakerAndCritic, 16) {
  SmallNet maker(2, 4, 3), critic(3, 4, 1);
  optim::Adam of_maker(maker.parameters(), {.lr = 0.01}),
      of_critic(critic.parameters(), {.lr = 0.02});
  auto critic_step = run.compile([&](const Tensor& real, const Tensor& noise, double label) {
    of_critic.zero_grad();
    Tensor fake;
    {
      NoGradGuard off;
      fake = maker(noise);
    }
    Tensor a = critic(real), b = critic(fake);
    Tensor loss = binary_cross_entropy_with_logits(a, full_like(a, label)) +
                  binary_cross_entropy_with_logits(b, zeros_like(b));
    loss.backward();
    of_critic.step();
    return loss.detach();
  });
  auto maker_step = run.compile([&](const Tensor& noise) {
    of_maker.zero_grad();
    for (Tensor& p : critic.parameters()) p.requires_grad_(false);
    Tensor b = critic(maker(noise));
    Tensor loss = binary_cross_entropy_with_logits(b, ones_like(b));
    loss.backward();
    of_maker.step();
    for (Tensor& p : critic.parameters()) p.requires_grad_(true);
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i) {
    int64_t n = i == 5 ? 2 : 4;
    run.log(critic_step(halves({n, 3}, i), halves({n, 2}, i + 1), i % 3 ? 1.0 : 0.9));
    if (i % 2) run.log(maker_step(halves({n, 2}, i)));
  }
  log_weights(run, maker);
  log_weights(run, critic);
}
TENON_PROGRAM_IN_ONE_GRAPH(MakerAndCritic, 16);

// A replay ring, a target network that follows softly, an exploration rate that falls.
TENON_PROGRAM(QLearning, 16) {
  SmallNet q(3, 4, 2), target(3, 4, 2);
  optim::Adam adam(q.parameters(), {.lr = 0.01});
  Tensor ring = zeros({6, 3}), reward = zeros({6});
  int64_t head = 0, filled = 0;
  auto remember = run.compile([&](const Tensor& s, double r) {
    ring.select(0, head).copy_(s);
    reward.select(0, head).fill_(r);
    head = (head + 1) % 6;
    filled = std::min<int64_t>(filled + 1, 6);
    return ring.sum();
  });
  auto learn = run.compile([&](const Tensor& picks) {
    Tensor s = ring.index_select(0, picks);
    Tensor best;
    {
      NoGradGuard off;
      best = std::get<0>(target(s + 0.5).max(1));
    }
    Tensor wanted = reward.index_select(0, picks) + 0.5 * best;
    Tensor all = q(s);
    Tensor chosen = all.gather(1, all.argmax(1, true)).squeeze(1);
    Tensor loss = smooth_l1_loss(chosen, wanted);
    adam.zero_grad();
    loss.backward();
    optim::clip_grad_norm_(q.parameters(), 0.5);
    adam.step();
    {
      NoGradGuard off;
      auto a = q.parameters(), b = target.parameters();
      for (size_t i = 0; i < a.size(); ++i) b[i].lerp_(a[i], 0.25);
    }
    return loss.detach();
  });
  for (int i = 0; i < 10; ++i) {
    run.log(remember(halves({3}, i), 0.25 * i));
    if (i < 3) continue;
    run.log(learn(arange(filled / 2) * 2 % filled));
  }
  log_weights(run, q);
  log_weights(run, target);
}
TENON_PROGRAM_IN_ONE_GRAPH(QLearning, 16);

// Inner steps by hand, the outer gradient through them.
TENON_PROGRAM(LearningToLearn, 8) {
  Tensor w = row({0.5, -0.25}).requires_grad_(), b = zeros({1}).requires_grad_();
  optim::SGD sgd({w, b}, {.lr = 0.125});
  auto outer = run.compile([&](const Tensor& x, const Tensor& y, int64_t inner) {
    sgd.zero_grad();
    Tensor u = w, v = b;
    for (int64_t i = 0; i < inner; ++i) {
      Tensor loss = ((x * u).sum({-1}) + v - y).square().mean();
      auto g = autograd::grad({loss}, {u, v}, {.retain_graph = true, .create_graph = true});
      u = u - 0.25 * g[0];
      v = v - 0.25 * g[1];
    }
    Tensor loss = ((x * u).sum({-1}) + v - y).square().mean();
    loss.backward();
    sgd.step();
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i)
    run.log(outer(halves({4, 2}, i), halves({4}, i + 3), 1 + i % 2), w.detach(), b.detach());
}
TENON_PROGRAM_IN_ONE_GRAPH(LearningToLearn, 8);

// A queue of keys that a pointer walks through, and an encoder that follows by momentum.
TENON_PROGRAM(AQueueOfKeys, 8) {
  SmallNet query(3, 4, 2), key(3, 4, 2);
  optim::SGD sgd(query.parameters(), {.lr = 0.125, .momentum = 0.5});
  Tensor queue = halves({2, 8}), at = zeros({1}, Dtype::i64);
  auto step = run.compile([&](const Tensor& x) {
    Tensor k;
    {
      NoGradGuard off;
      auto a = query.parameters(), b = key.parameters();
      for (size_t i = 0; i < a.size(); ++i) b[i].mul_(0.5).add_(a[i] * 0.5);
      k = on_the_sphere(key(x + 0.5));
    }
    Tensor q = on_the_sphere(query(x));
    Tensor logits = cat({(q * k).sum({1}, true), q.matmul(queue.clone().detach())}, 1) / 0.5;
    Tensor loss = cross_entropy(logits, zeros({x.size(0)}, Dtype::i64));
    sgd.zero_grad();
    loss.backward();
    sgd.step();
    int64_t p = at.item<int64_t>();
    queue.slice(1, p, p + x.size(0)).copy_(k.t());
    at.fill_((p + x.size(0)) % 8);
    return loss.detach();
  });
  for (int i = 0; i < 7; ++i) run.log(step(halves({2, 3}, i)), at);
  run.log(coarse(queue));
  for (const auto* net : {&query, &key})
    for (const Tensor& p : net->parameters()) run.log(coarse(p.detach()));
}

// Two passes in a step: up along the gradient, and down from where they started.
TENON_PROGRAM(FlatMinima, 6) {
  SmallNet net(3, 4, 1);
  optim::SGD sgd(net.parameters(), {.lr = 0.125, .momentum = 0.5, .weight_decay = 0.125});
  auto step = run.compile([&](const Tensor& x, const Tensor& y) {
    auto ps = net.parameters();
    mse_loss(net(x), y).backward();
    std::vector<Tensor> moved;
    {
      NoGradGuard off;
      Tensor norm = zeros({});
      for (auto& p : ps) norm += p.grad().square().sum();
      norm.sqrt_().add_(0.125);
      for (auto& p : ps) {
        Tensor e = p.grad() / norm * 0.25;
        p.add_(e);
        moved.push_back(e);
      }
    }
    sgd.zero_grad();
    Tensor loss = mse_loss(net(x), y);
    loss.backward();
    {
      NoGradGuard off;
      for (size_t i = 0; i < ps.size(); ++i) ps[i].sub_(moved[i]);
    }
    sgd.step();
    sgd.zero_grad();
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i)
    run.log(step(halves({i == 4 ? 2 : 4, 3}, i), halves({i == 4 ? 2 : 4, 1}, i)));
  for (const Tensor& p : net.parameters()) run.log(coarse(p.detach()));
}
TENON_PROGRAM_IN_ONE_GRAPH(FlatMinima, 6);

// States are carried over windows, cut off the tape, and begin anew with each text.
TENON_PROGRAM(WindowsOfATextWithCarriedStates, 12) {
  nn::LSTM lstm(2, 3, {.batch_first = true});
  nn::Linear head(3, 2);
  set_simply(lstm.parameters());
  set_simply(head.parameters());
  auto ps = lstm.parameters();
  for (auto& p : head.parameters()) ps.push_back(p);
  optim::Adam adam(ps, {.lr = 0.01});
  Tensor h = zeros({1, 2, 3}), c = zeros({1, 2, 3});
  auto step = run.compile([&](const Tensor& x, const Tensor& y, bool anew) {
    if (anew) {
      h = zeros({1, 2, 3});
      c = zeros({1, 2, 3});
    }
    auto [out, last, cell] = lstm(x, h, c);
    h = last.detach();
    c = cell.detach();
    Tensor loss = cross_entropy(head(out).reshape({-1, 2}), y.reshape({-1}), {.ignore_index = -1});
    adam.zero_grad();
    loss.backward();
    optim::clip_grad_value_(ps, 0.125);
    adam.step();
    return loss.detach();
  });
  for (int i = 0; i < 8; ++i) {
    int64_t n = i % 3 == 2 ? 3 : 5;
    Tensor y = arange(2 * n).reshape({2, n}) % 2;
    y.select(1, 0).fill_(-1);
    run.log(step(halves({2, n, 2}, i), y, i % 4 == 0), coarse(h), coarse(c));
  }
}

// Masks are chosen anew every third step; masked weights stay zero.
TENON_PROGRAM(WeightsArePruned, 8) {
  SmallNet net(3, 4, 2);
  optim::AdamW adam(net.parameters(), {.lr = 0.01, .weight_decay = 0.125});
  std::map<std::string, Tensor> masks;
  double share = 0.25;
  int steps = 0;
  auto step = run.compile([&](const Tensor& x, const Tensor& y) {
    if (steps++ % 3 == 0) {
      NoGradGuard off;
      for (auto& [name, p] : net.named_parameters()) {
        if (p.dim() < 2) continue;
        int64_t k = std::max<int64_t>(1, static_cast<int64_t>(share * double(p.numel())));
        Tensor least = std::get<0>(p.abs().reshape({-1}).kthvalue(k));
        masks[name] = (p.abs() > least).to(Dtype::f32);
      }
      share += 0.125;
    }
    Tensor loss = cross_entropy(net(x), y);
    adam.zero_grad();
    loss.backward();
    {
      NoGradGuard off;
      for (auto& [name, p] : net.named_parameters())
        if (masks.contains(name)) p.grad().mul_(masks[name]);
    }
    adam.step();
    NoGradGuard off;
    Tensor left = zeros({});
    for (auto& [name, p] : net.named_parameters())
      if (masks.contains(name)) {
        p.mul_(masks[name]);
        left += (p != 0).sum();
      }
    return std::pair(loss.detach(), left);
  });
  for (int i = 0; i < 7; ++i) {
    auto [loss, left] = step(halves({4, 3}, i), arange(4) % 2);
    run.log(loss, left);
  }
  log_weights(run, net);
}

// Beams that grow by a token, their caches chosen by the winners.
TENON_PROGRAM(BeamsWithCaches, 12) {
  Tensor table = halves({5, 4}), wq = halves({4, 4}, 1), wk = halves({4, 4}, 2),
         out = halves({4, 5}, 3);
  std::vector<Tensor> keys;
  Tensor scores;
  auto step = run.compile([&](const Tensor& tokens) {
    Tensor x = embedding(table, tokens);
    keys.push_back(x.matmul(wk));
    Tensor k = stack(keys, 1);
    Tensor a = (x.matmul(wq).unsqueeze(1) * k).sum({-1}).softmax(-1);
    Tensor y = log_softmax((a.unsqueeze(-1) * k).sum({1}).matmul(out), -1);
    Tensor total = (scores.unsqueeze(1) + y).reshape({-1});
    auto [best, places] = total.topk(3);
    Tensor beam = floor_divide(places, 5);
    scores = best;
    for (Tensor& old : keys) old = old.index_select(0, beam);
    return std::pair(places % 5, beam);
  });
  for (int text = 0; text < 2; ++text) {
    keys.clear();
    scores = row({0, -0.5, -1});
    Tensor tokens = arange(3) + text;
    for (int i = 0; i < 6; ++i) {
      auto [next, beam] = step(tokens);
      tokens = next;
      run.log(tokens, beam, scores);
    }
  }
}

// A loss in a narrow type, scaled; steps with an overflow are skipped, and the scale halves.
TENON_PROGRAM(ScaledLossesOfANarrowType, 12) {
  SmallNet net(3, 4, 1);
  optim::SGD sgd(net.parameters(), {.lr = 0.125});
  double scale = 1024;
  int good = 0, skipped = 0;
  auto step = run.compile([&](const Tensor& x, const Tensor& y) {
    Tensor loss;
    {
      AutocastGuard narrow({.dtype = Dtype::bf16});
      loss = mse_loss(net(x).to(Dtype::f32), y);
    }
    sgd.zero_grad();
    (loss * scale).backward();
    Tensor bad = zeros({}, Dtype::bool_);
    {
      NoGradGuard off;
      for (auto& p : net.parameters()) {
        p.grad().mul_(1 / scale);
        bad = bad | p.grad().isfinite().all().logical_not();
      }
    }
    if (bad.item<bool>()) {
      scale /= 2;
      good = 0;
      ++skipped;
    } else {
      sgd.step();
      if (++good % 2 == 0) scale *= 2;
    }
    return loss.detach();
  });
  for (int i = 0; i < 9; ++i) {
    Tensor x = halves({4, 3}, i);
    if (i % 4 == 2) x = x * std::numeric_limits<float>::infinity();
    run.log(step(x, halves({4, 1}, i)).isfinite(), scale, skipped);
  }
  for (const Tensor& p : net.parameters()) run.log(p.isfinite().all());
}

// Noise by schedule, an average of the weights, an evaluation with it in between.
TENON_PROGRAM(NoiseIsPredicted, 12) {
  SmallNet net(4, 4, 2);
  optim::Adam adam(net.parameters(), {.lr = 0.01});
  std::vector<Tensor> average;
  for (auto& p : net.parameters()) average.push_back(p.detach().clone());
  Tensor kept = cumprod(1 - arange(8).to(Dtype::f32) * 0.0625, 0);
  auto model = [&](const Tensor& x, const Tensor& t) {
    Tensor f = t.to(Dtype::f32).unsqueeze(1) * 0.25;
    return net(cat({x, f.sin(), f.cos()}, 1));
  };
  auto step = run.compile([&](const Tensor& x, const Tensor& t, const Tensor& noise) {
    Tensor a = kept.index_select(0, t).unsqueeze(1);
    Tensor loss = mse_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise);
    adam.zero_grad();
    loss.backward();
    adam.step();
    NoGradGuard off;
    auto ps = net.parameters();
    for (size_t i = 0; i < ps.size(); ++i) average[i].mul_(0.75).add_(ps[i].detach(), 0.25);
    return loss.detach();
  });
  auto sample = run.compile([&](Tensor x, int64_t steps) {
    NoGradGuard off;
    std::vector<Tensor> own;
    auto ps = net.parameters();
    for (size_t i = 0; i < ps.size(); ++i) {
      own.push_back(ps[i].detach().clone());
      ps[i].copy_(average[i]);
    }
    for (int64_t s = steps - 1; s >= 0; --s) {
      Tensor t = full({x.size(0)}, s, Dtype::i64);
      Tensor a = kept.select(0, s);
      x = (x - (1 - a).sqrt() * model(x, t)) / a.sqrt();
    }
    for (size_t i = 0; i < ps.size(); ++i) ps[i].copy_(own[i]);
    return x;
  });
  for (int i = 0; i < 6; ++i) {
    run.log(step(halves({4, 2}, i), (arange(4) * 3 + i) % 8, halves({4, 2}, i + 2)));
    if (i % 2) run.log(sample(halves({2 + i % 3, 2}, i), 2 + i % 4));
  }
  log_weights(run, net);
}
TENON_PROGRAM_IN_ONE_GRAPH(NoiseIsPredicted, 12);

TENON_PROGRAM(AFrozenNetIsCopiedIntoTheBestOne, 16) {
  nn::Linear first(4, 5), net(5, 3), best(5, 3);
  for (auto* m : {&first, &net, &best}) set_simply(m->parameters());
  std::vector<Tensor> all = first.parameters();
  for (auto& p : net.parameters()) all.push_back(p);
  optim::SGD sgd(all, {.lr = 0.125});
  auto step = run.compile([&](const Tensor& x) {
    sgd.zero_grad(false);
    Tensor loss = net(first(x)).square().mean();
    loss.backward();
    sgd.step();
    StateDict copy;
    for (auto& [name, t] : net.state_dict()) copy[name] = t.detach().clone();
    best.load_state_dict(copy);
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i) {
    if (i == 1) sgd.zero_grad();
    if (i == 2) net.requires_grad_(false);
    run.log(step(halves({3, 4}, i)));
    for (const Tensor& p : best.parameters()) run.log(p.detach());
  }
}

}  // namespace
}  // namespace tenon::programs
