// Algorithms around models: searches with caches, filters, policies, folds of a data set, codes of few
// bits, fixed points.
#include "program.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

namespace tenon::programs {
namespace {

struct Net : nn::Module {
  nn::Linear in{2, 4}, out{4, 2};
  TENON_MODULE(Net, in, out)
  Net() { set_simply(parameters()); }
  Tensor forward(const Tensor& x) const { return out(in(x).relu()); }
};

Tensor batch(int i, int64_t n = 3) { return (arange(2 * n) % 5 - 2 + i % 3).reshape({n, 2}) * 0.5; }

// The keys of each beam move with it when beams are exchanged.
TENON_PROGRAM(ABeamMovesItsCache, 8) {
  constexpr int64_t beams = 3, words = 5, width = 4;
  Tensor table =
      ((arange(words * width) * 7) % 11 - 5).to(Dtype::f32).reshape({words, width}) * 0.25;
  Tensor cache = zeros({beams, 0, width});
  Tensor ids = zeros({beams, 1}, Dtype::i64), scores = row({0, -1, -2});
  auto advance = run.compile([&](const Tensor& last, const Tensor& keys, const Tensor& sum) {
    Tensor query = table.index_select(0, last);
    Tensor longer = cat({keys, query.unsqueeze(1)}, 1);
    Tensor weights = softmax(matmul(longer, query.unsqueeze(-1)).squeeze(-1), -1);
    Tensor seen = matmul(weights.unsqueeze(1), longer).squeeze(1);
    Tensor next = log_softmax(matmul(seen, table.t()), -1) + sum.unsqueeze(-1);
    auto [best, place] = topk(next.flatten(), beams);
    Tensor from = floor_divide(place, words), word = place % words;
    return std::tuple(best, from, word, longer.index_select(0, from));
  });
  for (int i = 0; i < 6; ++i) {
    auto [best, from, word, keys] = advance(ids.select(1, -1), cache, scores);
    ids = cat({ids.index_select(0, from), word.unsqueeze(1)}, 1);
    scores = best;
    cache = keys;
    run.log(ids, int64_t{cache.size(1)}, scores);
  }
}

TENON_PROGRAM(TheLikeliestCourseThroughStates, 4) {
  Tensor moves = row({0.5, 0.25, 0.25, 0.125, 0.75, 0.125, 0.25, 0.25, 0.5}).reshape({3, 3}).log();
  auto forward = run.compile([&](const Tensor& score, const Tensor& seen) {
    auto [best, from] = max(score.unsqueeze(1) + moves, 0);
    return std::pair(best + seen, from);
  });
  for (int length : {3, 5, 8}) {
    Tensor score = zeros({3});
    std::vector<Tensor> came_from;
    for (int t = 0; t < length; ++t) {
      auto [next, from] = forward(score, row({float(t % 3), float(t % 2), 0.5}));
      score = next;
      came_from.push_back(from);
    }
    std::vector<int64_t> course{score.argmax().item<int64_t>()};
    for (size_t t = came_from.size(); t-- > 1;)
      course.push_back(came_from[t][course.back()].item<int64_t>());
    std::ranges::reverse(course);
    run.log(course, score);
  }
}

TENON_PROGRAM(AStateIsEstimatedFromNoise, 2) {
  Tensor motion = row({1, 1, 0, 1}).reshape({2, 2}), look = row({1, 0}).reshape({1, 2});
  auto step = run.compile([&](const Tensor& mean, const Tensor& spread, const Tensor& seen) {
    Tensor m = matmul(motion, mean);
    Tensor p = matmul(matmul(motion, spread), motion.t()) + eye(2) * 0.0625;
    Tensor s = matmul(matmul(look, p), look.t()) + 0.25;
    Tensor gain = matmul(p, look.t()) / s;
    return std::pair(m + matmul(gain, seen - matmul(look, m)), p - matmul(matmul(gain, look), p));
  });
  Tensor mean = zeros({2, 1}), spread = eye(2);
  for (int t = 0; t < 8; ++t) {
    auto [m, p] = step(mean, spread, full({1, 1}, t + (t % 3 - 1) * 0.25));
    mean = m;
    spread = p;
    run.log(mean, spread);
  }
}

// Episodes of many lengths, returns from behind, and a baseline that follows.
TENON_PROGRAM(APolicyLearnsFromEpisodes, 6) {
  Net policy;
  optim::SGD opt(policy.parameters(), {.lr = 0.0625});
  double baseline = 0;
  auto act = run.compile([&](const Tensor& seen) {
    InferenceMode inference;
    return softmax(policy(seen), -1);
  });
  auto learn = run.compile([&](const Tensor& seen, const Tensor& acts, const Tensor& gains) {
    opt.zero_grad();
    Tensor chosen = log_softmax(policy(seen), -1).gather(1, acts.unsqueeze(1)).squeeze(1);
    Tensor loss = -(chosen * gains).mean();
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (int episode = 0; episode < 6; ++episode) {
    std::vector<Tensor> seen;
    std::vector<int64_t> acts;
    std::vector<float> rewards;
    Tensor place = row({float(episode % 3) - 1, 0.5});
    for (int t = 0; t < 3 + episode % 4; ++t) {
      bool right = act(place.unsqueeze(0))[0][1].item<float>() > 0.5;
      seen.push_back(place);
      acts.push_back(right);
      place = place + row({right ? 0.5f : -0.5f, 0});
      rewards.push_back(place[0].item<float>() > 0.75 ? 1 : -0.25f);
    }
    std::vector<float> gains(rewards.size());
    float gain = 0;
    for (size_t t = rewards.size(); t-- > 0;) gains[t] = gain = rewards[t] + 0.5f * gain;
    Tensor advantage = tensor(gains) - baseline;
    baseline = 0.5 * baseline + 0.5 * gains[0];
    run.log(acts, learn(stack(seen), tensor(acts), advantage), baseline);
  }
}

TENON_PROGRAM(FoldsWithAModelEach, 40) {
  Tensor data = (arange(24) % 7 - 3).to(Dtype::f32).reshape({12, 2}) * 0.25;
  Tensor wanted = data.sum(1, true) * row({1, -1});
  for (int64_t fold = 0; fold < 4; ++fold) {
    Net net;
    optim::SGD opt(net.parameters(), {.lr = 0.125});
    std::map<std::string, Tensor> best;
    float least = INFINITY;
    int without = 0, epoch = 0;
    Tensor train = cat({data.slice(0, 0, 3 * fold), data.slice(0, 3 * fold + 3)});
    Tensor train_wanted = cat({wanted.slice(0, 0, 3 * fold), wanted.slice(0, 3 * fold + 3)});
    auto loss_of =
        run.compile([&](const Tensor& x, const Tensor& y) { return (net(x) - y).square().mean(); });
    for (; epoch < 8 && without < 2; ++epoch) {
      opt.zero_grad();
      loss_of(train, train_wanted).backward();
      opt.step();
      NoGradGuard no_grad;
      float loss =
          loss_of(data.slice(0, 3 * fold, 3 * fold + 3), wanted.slice(0, 3 * fold, 3 * fold + 3))
              .item<float>();
      without = loss < least ? 0 : without + 1;
      if (loss >= least) continue;
      least = loss;
      for (const auto& [name, value] : net.state_dict()) best[name] = value.detach().clone();
    }
    for (const auto& [name, value] : net.state_dict()) {
      NoGradGuard no_grad;
      value.copy_(best.at(name));
    }
    NoGradGuard no_grad;
    run.log(
        epoch, least,
        loss_of(data.slice(0, 3 * fold, 3 * fold + 3), wanted.slice(0, 3 * fold, 3 * fold + 3)));
  }
}

// The longest sequence grows as training goes on, with a mask for what is padded.
TENON_PROGRAM(ACurriculumOfLengths, 6) {
  nn::Embedding words(6, 4);
  nn::Linear out(4, 6);
  std::vector<Tensor> parameters = words.parameters();
  for (const Tensor& p : out.parameters()) parameters.push_back(p);
  set_simply(parameters);
  optim::SGD opt(parameters, {.lr = 0.125});
  auto loss_of = run.compile([&](const Tensor& ids, const Tensor& lengths) {
    int64_t longest = ids.size(1);
    Tensor is_word = arange(longest).unsqueeze(0) < lengths.unsqueeze(1);
    Tensor seen = cumsum(words(ids), 1) / (arange(longest) + 1).unsqueeze(-1);
    Tensor scores = log_softmax(out(seen), -1).gather(2, ids.unsqueeze(-1)).squeeze(-1);
    return -(scores * is_word).sum() / is_word.sum();
  });
  for (int64_t longest : {2, 3, 5, 8, 5, 12}) {
    opt.zero_grad();
    Tensor ids = (arange(3 * longest) * 5 % 6).reshape({3, longest});
    Tensor loss = loss_of(ids, tensor({int64_t{1}, longest / 2 + 1, longest}));
    loss.backward();
    opt.step();
    run.log(longest, loss, out.bias);
  }
}

// Eight bits for weights with a scale a row, and for activations with one a batch.
TENON_PROGRAM(AQuantisedLayerServes, 4) {
  Tensor w = (arange(12) % 7 - 3).to(Dtype::f32).reshape({3, 4}) * 0.375;
  Tensor scale = w.abs().amax(1, true) / 127.0;
  Tensor codes = (w / scale).round().clamp(-127, 127).to(Dtype::i8);
  auto serve = run.compile([&](const Tensor& x) {
    Tensor most = x.abs().amax() / 127.0;
    Tensor q = (x / most).round().to(Dtype::i8);
    Tensor sums = matmul(q.to(Dtype::i32), codes.to(Dtype::i32).t());
    return sums.to(Dtype::f32) * most * scale.t();
  });
  for (int64_t n : {1, 2, 5, 3}) {
    Tensor x = (arange(4 * n) % 9 - 4).to(Dtype::f32).reshape({n, 4}) * 0.5;
    Tensor y = serve(x);
    run.log(y, (y - matmul(x, w.t())).abs().max() < 0.1);
  }
}

TENON_PROGRAM(AnAdversaryFollowsTheSlopeOfTheInput, 3) {
  Net net;
  auto loss_of = run.compile([&](const Tensor& x) { return (net(x) - 1.0).square().mean(); });
  for (int i = 0; i < 3; ++i) {
    Tensor clean = batch(i, 2), x = clean.clone();
    for (int k = 0; k < 3; ++k) {
      Tensor start = x.detach().requires_grad_();
      loss_of(start).backward();
      x = clamp(x + start.grad().sign() * 0.125, clean - 0.25, clean + 0.25);
    }
    run.log(x, loss_of(x).detach(), net.in.weight.grad().sum());
    net.zero_grad();
  }
}

// As many turns as it takes; the body itself decides.
TENON_PROGRAM(AFixedPointWithATolerance, 8) {
  Tensor a = row({0.5, 0.25, 0.125, -0.5}).reshape({2, 2});
  auto solve = run.compile([&](const Tensor& b, double tolerance) {
    Tensor x = zeros_like(b);
    int turns = 0;
    for (; turns < 50; ++turns) {
      Tensor next = tanh(matmul(a, x)) + b;
      bool is_near = (next - x).abs().max().item<float>() < tolerance;
      x = next;
      if (is_near) break;
    }
    return std::pair(x, turns);
  });
  for (double tolerance : {0.5, 0.01, 0.25}) {
    auto [x, turns] = solve(row({1, -0.5}), tolerance);
    run.log(x, turns);
  }
}

// Rows are normalised in turns with columns, by a number of turns that the caller gives.
TENON_PROGRAM(ATransportPlan, 6) {
  auto plan = run.compile([](const Tensor& cost, int turns) {
    Tensor log_plan = -cost * 2.0;
    for (int i = 0; i < turns; ++i) {
      log_plan = log_plan - logsumexp(log_plan, {1}, true);
      log_plan = log_plan - logsumexp(log_plan, {0}, true);
    }
    return log_plan.exp();
  });
  for (int turns : {1, 4, 2})
    for (int64_t n : {2, 3}) {
      Tensor cost = ((arange(n * n) * 3) % 5).to(Dtype::f32).reshape({n, n}) * 0.25;
      run.log(plan(cost, turns));
    }
}

// The two nearest experts of each row get it; each expert sees another number of rows in each call.
TENON_PROGRAM(RowsAreSentToExperts, 24) {
  std::vector<std::unique_ptr<Net>> experts;
  for (int i = 0; i < 3; ++i) experts.push_back(std::make_unique<Net>());
  experts[1]->in.weight.requires_grad_(false).mul_(-1.0).requires_grad_(true);
  Tensor gate = row({1, 0, 0, 1, -1, -1}).reshape({3, 2});
  auto forward = run.compile([&](const Tensor& x) {
    auto [weight, which] = topk(softmax(matmul(x, gate.t()), -1), 2);
    Tensor y = zeros_like(x);
    for (int64_t e = 0; e < 3; ++e) {
      Tensor place = nonzero(which == e);
      Tensor rows = place.select(1, 0), share = weight.index({rows, place.select(1, 1)});
      y = y.index_add(0, rows, (*experts[size_t(e)])(x.index_select(0, rows)) * share.unsqueeze(1));
    }
    return y;
  });
  for (int i = 0; i < 4; ++i) {
    Tensor y = forward(batch(i, 4 + i % 2));
    y.square().sum().backward();
    run.log(y, experts[0]->out.bias.grad(), experts[2]->in.bias.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
