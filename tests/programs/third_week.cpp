// Programs of users who have gone on: state between calls, several callables over one model, hooks,
// exceptions, optional parts, recursion.
#include "program.h"

#include <tenon/nn.h>

#include <map>

namespace tenon::programs {
namespace {

// Two callables read a model that a third one writes; layers are frozen in between.
TENON_PROGRAM(ThreeCallablesOverOneModel, 12) {
  Tensor first = row({0.5, -1, 2, 0.25}).view({2, 2}).requires_grad_();
  Tensor second = row({1, 0.5}).requires_grad_();
  auto predict =
      run.compile([&](const Tensor& x) { return x.matmul(first).relu().matmul(second); });
  auto loss = run.compile([&](const Tensor& x, const Tensor& y) {
    return (predict(x) - y).pow(2).mean() + first.abs().sum() * 0.125;
  });
  auto update = run.compile([&](double rate) {
    NoGradGuard off;
    for (Tensor* w : {&first, &second}) {
      if (!w->requires_grad() || !w->grad().defined()) continue;
      w->sub_(w->grad() * rate);
      w->set_grad({});
    }
  });
  for (int i = 0; i < 8; ++i) {
    if (i == 3) first.requires_grad_(false);
    if (i == 5) first.requires_grad_(true);
    if (i == 6) second = (second.detach() * 0.5).requires_grad_();
    int64_t n = 2 + i % 3;
    Tensor x = arange(2 * n).to(Dtype::f32).view({n, 2}) * 0.25;
    Tensor value = loss(x, ones({n}));
    value.backward();
    update(i < 4 ? 0.125 : 0.0625);
    run.log(value, predict(x));
  }
}

// The buffer keeps what was written before the error.
TENON_PROGRAM(AnErrorInTheMiddleAndAnotherTry, 6) {
  Tensor seen = zeros({2}), scale = ones({2});
  int attempts = 0;
  auto f = run.compile([&](const Tensor& x) {
    seen.add_(x);
    ++attempts;
    Tensor y = x * scale;
    if (y.sum().item<float>() > 4) {
      scale.mul_(0.5);
      throw std::runtime_error("too large");
    }
    seen.mul_(0.5);
    return y + seen;
  });
  for (int i = 0; i < 6; ++i) {
    Tensor x = row({1, float(i)});
    for (bool done = false; !done;) try {
        run.log(f(x), seen);
        done = true;
      } catch (const std::runtime_error& error) {
        run.log(error.what(), seen, scale);
      }
  }
  run.log(attempts);
}

TENON_PROGRAM(GradientsOnAndOff, 8) {
  Tensor w = row({1, 2}).requires_grad_(), average = w.detach().clone();
  bool trains = true;
  auto f = run.compile([&](const Tensor& x) {
    EnableGradGuard mode(trains);
    Tensor y = (x * w).exp();
    run.log(y.requires_grad(), is_grad_enabled());
    {
      NoGradGuard off;
      average.mul_(0.5).add_(w * 0.5);
    }
    return y.sum() + (trains ? w.pow(2).sum() : average.sum());
  });
  for (int i = 0; i < 8; ++i) {
    trains = i % 3 != 2;
    Tensor loss = f(row({0.5, float(i) / 8}));
    run.log(loss.requires_grad(), loss, average);
    if (!trains) continue;
    loss.backward();
    NoGradGuard off;
    w.sub_(w.grad() * 0.125);
    w.set_grad({});
  }
  NoGradGuard off;
  trains = true;
  run.log(f(row({1, 1})).requires_grad(), average);
}

struct Attention {
  Tensor operator()(const Tensor& x, double scale = 0.5, std::optional<Tensor> mask = {},
                    bool causal = false) const {
    Tensor scores = x.matmul(x.t()) * scale;
    if (mask) scores = scores + *mask;
    if (causal) scores = scores.tril();
    return scores.matmul(x);
  }
};

TENON_PROGRAM(DefaultsLeftOutAndGiven, 12) {
  auto f = run.compile(Attention());
  for (int i = 0; i < 3; ++i) {
    Tensor x = arange(4 + 2 * i).to(Dtype::f32).view({2 + i, 2}) * 0.25;
    run.log(f(x), f(x, 0.25), f(x, 1.0, zeros({2 + i, 2 + i}) + 1.0));
    run.log(f(x, 0.5, std::nullopt, true), f(x, 0.5, std::nullopt, false));
  }
}

using Parts = std::map<std::string, std::optional<Tensor>>;

TENON_PROGRAM(PartsThatMayBeMissing, 8) {
  auto merge = run.compile([](const Parts& parts, std::vector<std::optional<Tensor>> more) {
    Parts out;
    Tensor sum = zeros({2});
    for (const auto& [name, t] : parts) {
      out[name] = t ? std::optional(*t * 2.0) : std::nullopt;
      if (t) sum = sum + *t;
    }
    for (auto& t : more) t = t ? *t + sum : sum;
    return std::pair(out, more);
  });
  for (int i = 0; i < 8; ++i) {
    Parts parts{{"a", row({1, float(i)})}, {"b", std::nullopt}};
    if (i % 2) parts["b"] = row({4, 4});
    if (i % 4 == 3) parts["c"] = std::nullopt;
    std::vector<std::optional<Tensor>> given{std::nullopt, row({float(i), 0})};
    auto [out, more] = merge(parts, given);
    for (const auto& [name, t] : out) run.log(name, t.value_or(Tensor()));
    run.log(*more[0], *more[1]);
  }
}

struct Tree {
  Tensor value;
  std::vector<Tree> children;
  TENON_TREE(Tree, value, children)
};

TENON_PROGRAM(SumsOverTrees, 8) {
  Tensor w = row({0.5, 2}).requires_grad_();
  std::function<Tensor(const Tree&)> visit = [&](const Tree& tree) {
    Tensor sum = tree.value * w;
    for (const Tree& child : tree.children) sum = sum + visit(child).relu();
    return sum;
  };
  auto f = run.compile([&](const Tree& tree) { return visit(tree).sum(); });
  auto leaf = [](float v) { return Tree{row({v, 1}), {}}; };
  Tree small{row({1, 2}), {leaf(1), leaf(-1)}};
  Tree large{row({2, 1}), {small, leaf(3), Tree{row({-1, 0}), {leaf(2)}}}};
  for (int i = 0; i < 6; ++i) {
    w.set_grad({});
    Tensor sum = f(i % 3 == 0 ? leaf(float(i)) : i % 3 == 1 ? small : large);
    sum.backward();
    run.log(sum, w.grad());
  }
}

// Hooks that look, hooks that clip, and a recorder that is switched on for a while.
TENON_PROGRAM(ClippingAndRecording, 8) {
  Tensor w = row({1, 2}).requires_grad_();
  std::vector<Tensor> recorded;
  bool records = false;
  auto f = run.compile([&](const Tensor& x, double limit) {
    Tensor h = x * w;
    autograd::register_hook(h, [limit](const Tensor& g) { return g.clamp(-limit, limit); });
    Tensor k = h.exp();
    if (records) {
      recorded.push_back(k.detach());
      autograd::register_hook(k, [&](const Tensor& g) { recorded.push_back(g * 1.0); });
    }
    return (k * k).sum();
  });
  for (int i = 0; i < 9; ++i) {
    records = i / 2 % 2 == 1;
    w.set_grad({});
    f(row({0.5, float(i % 3) / 4}), i % 2 ? 1.0 : 4.0).backward();
    run.log(w.grad(), recorded.size());
  }
  for (const Tensor& t : recorded) run.log(t);
}

struct Beam {
  Tensor state;
  double score;
  std::vector<int> words;
};

TENON_PROGRAM(BeamsThatTakeTurns, 6) {
  Tensor table = row({0.5, 1, -1, 2, 0.25, 4}).view({3, 2});
  auto step = run.compile([&](const std::vector<Beam>& beams, int word) {
    std::vector<Beam> next;
    for (const Beam& beam : beams) {
      Tensor state = beam.state * 0.5 + table.select(0, word);
      next.push_back({state, 0, beam.words});
      next.back().words.push_back(word);
      next.back().score = beam.score + state.sum().item<float>();
    }
    return next;
  });
  std::vector<Beam> beams{{zeros({2}), 0, {}}};
  for (int i = 0; i < 4; ++i) {
    std::vector<Beam> all;
    for (int word = 0; word < 3; ++word)
      for (Beam& beam : step(beams, word)) all.push_back(std::move(beam));
    std::ranges::stable_sort(all, std::greater(), &Beam::score);
    all.resize(2);
    beams = std::move(all);
    for (const Beam& beam : beams) run.log(beam.state, beam.score, beam.words);
  }
}

TENON_PROGRAM(RestartsFromACheckpoint, 6) {
  struct State {
    Tensor weight, momentum;
    int step = 0;
  };
  auto state = std::make_shared<State>(State{row({1, 2}), zeros({2})});
  auto advance = run.compile([](const std::shared_ptr<State>& s, const Tensor& x, double rate) {
    Tensor gradient = (s->weight * x - 1.0) * x;
    s->momentum = s->momentum * 0.5 + gradient;
    s->weight = s->weight - s->momentum * (s->step < 3 ? rate : rate * 0.5);
    ++s->step;
    return gradient.abs().sum();
  });
  State saved = *state;
  for (int i = 0; i < 9; ++i) {
    if (i == 3) saved = *state;
    if (i == 6) *state = saved;
    run.log(advance(state, row({1, float(i % 2)}), 0.25), state->weight, state->step);
  }
  run.log(saved.weight, saved.step);
}

TENON_PROGRAM(CallbacksThatAreSwapped, 8) {
  using Stage = std::function<Tensor(const Tensor&)>;
  std::vector<Stage> stages{[](const Tensor& x) { return x * 2.0; },
                            [](const Tensor& x) { return x.relu(); }};
  int64_t applied = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x;
    for (const Stage& stage : stages) {
      h = stage(h);
      ++applied;
    }
    return h;
  });
  for (int i = 0; i < 10; ++i) {
    if (i == 3) stages.push_back([&](const Tensor& x) { return x + double(applied); });
    if (i == 6) std::swap(stages[0], stages[2]);
    if (i == 8) stages.erase(stages.begin() + 1);
    run.log(f(ones({2 + i % 2}) * float(i - 5)), applied);
  }
}

TENON_PROGRAM(PatienceAndBestSoFar, 6) {
  Tensor w = row({2, -2}).requires_grad_();
  std::optional<Tensor> best;
  int patience = 0;
  double rate = 0.25;
  auto step = run.compile([&](const Tensor& x) {
    w.set_grad({});
    Tensor loss = (x * w - 1.0).abs().sum();
    loss.backward();
    NoGradGuard off;
    w.sub_(w.grad() * rate);
    if (!best || loss.item<float>() < best->item<float>()) {
      best = loss.detach();
      patience = 0;
    } else if (++patience == 2) {
      rate *= 0.5;
      patience = 0;
    }
    return loss.detach();
  });
  for (int i = 0; i < 10; ++i) {
    Tensor loss = step(row({1, i % 2 ? 0.5f : 1.f}));
    run.log(loss, *best, patience, rate);
  }
}

TENON_PROGRAM(ATokenizerOfTwoCallables, 16) {
  auto encode = run.compile([](const Tensor& x) { return x * 2.0 + 1.0; });
  auto decode = run.compile([](const Tensor& code) { return (code - 1.0) * 0.5; });
  auto both = run.compile([&](const Tensor& x, int64_t rounds) {
    Tensor h = x;
    for (int64_t i = 0; i < rounds; ++i) h = decode(encode(h)) + double(i);
    return h;
  });
  for (int i = 0; i < 9; ++i) {
    Tensor x = ones({1 + i % 3, 2}) * float(i);
    run.log(both(x, i % 4), decode(encode(x)), encode(x.t()));
  }
}

}  // namespace
}  // namespace tenon::programs
