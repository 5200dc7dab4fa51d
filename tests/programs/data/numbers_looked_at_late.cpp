// Numbers of the data that are kept as they are, in containers, structs and optionals, and looked at
// late: after writes, resets and further calls.
#include "program.h"

#include <tenon/config.h>

#include <map>
#include <optional>

namespace tenon::programs {
namespace {

TENON_PROGRAM(ScalarsOfManyCalls, 2) {
  Tensor state = zeros({3});
  std::vector<Scalar<float>> kept;
  auto f = run.compile([&](const Tensor& x) {
    kept.push_back(state.sum().item<float>());
    state.add_(x);
    kept.push_back(state.sum().item<float>());
    state.mul_(0.5);
    return state * 2.0;
  });
  for (int i = 0; i < 6; ++i) {
    run.log(f(halves({3}, i)));
    state.add_(1.0);
    if (i % 3 == 2)
      for (auto& s : kept) run.log(s);
  }
  run.log(kept.size(), kept.front(), kept.back());
}

// 2. A scalar of the call before is used in the next one's ops.
TENON_PROGRAM(ANumberOfTheCallBefore, 4) {
  std::optional<Scalar<float>> last;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x;
    if (last) y = y + *last;
    last = y.mean().item<float>();
    return y;
  });
  for (int i = 0; i < 6; ++i) {
    run.log(f(halves({4}, i)));
    if (i == 3) last.reset();
    if (i == 4) run.log(*last);
  }
}

struct Stats {
  Scalar<double> mean;
  Scalar<int64_t> count;
  Scalar<bool> good;
  Tensor total;
};
TENON_PROGRAM(NumbersGoInAndOutAgain, 4) {
  auto f = run.compile([&](const Stats& s, const Tensor& x) {
    Stats out;
    out.total = s.total + x.sum();
    out.count = (x > 0).sum().item<int64_t>();
    out.mean = (x.mean() * s.mean).item<double>();
    out.good = (x.sum() > 0).item<bool>();
    return out;
  });
  Stats s{0.5, 0, true, zeros({})};
  for (int i = 0; i < 7; ++i) {
    s = f(s, halves({2 + i % 2, 2}, i) + 1.0);
    run.log(s.mean, s.count, s.good, s.total);
    if (i == 4) s.mean = 2.0;
  }
}

TENON_PROGRAM(NumbersOutliveTheirCode, 4) {
  Tensor state = ones({2});
  auto f = run.compile([&](const Tensor& x) {
    state.mul_(x);
    return std::pair(state.sum().item<float>(), state.amax().item<float>());
  });
  std::vector<std::pair<Scalar<float>, Scalar<float>>> all;
  for (int i = 0; i < 5; ++i) {
    all.push_back(f(row({1.5, float(i)})));
    state.add_(1);
    if (i == 2) f.reset();
  }
  for (auto& [a, b] : all) run.log(a, b);
}

TENON_PROGRAM(TensorsByANumberOfTheData, 10) {
  std::map<int64_t, Tensor> buckets;
  auto f = run.compile([&](const Tensor& x) {
    int64_t key = x.argmax().item<int64_t>();
    auto [it, is_new] = buckets.try_emplace(key, x * 0.0);
    it->second = it->second * 0.5 + x;
    if (!is_new) it->second.add_(0.25);
    Tensor sum = zeros({3});
    for (auto& [k, t] : buckets) sum = sum + t * double(k + 1);
    return sum;
  });
  for (int i = 0; i < 8; ++i) {
    run.log(f(halves({3}, i)), buckets.size());
    if (i == 4) buckets.erase(buckets.begin());
    if (i == 5)
      for (auto& [k, t] : buckets) t.zero_();
  }
}

TENON_PROGRAM(ARunningTotal, 4) {
  Scalar<double> total = 0.0;
  double plain = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor loss = (x * x).sum();
    total = Scalar<double>(loss.item<double>() + total.value());
    plain += loss.item<double>();
    return loss / total;
  });
  for (int i = 0; i < 5; ++i) run.log(f(halves({3}, i)), total, plain);
}

TENON_PROGRAM(ALogThatIsReadNowAndThen, 4) {
  // Statistics of scalars: a struct of many that outlives the body, and is printed late.
  struct Log {
    std::vector<std::pair<std::string, Scalar<float>>> entries;
    void add(std::string n, Scalar<float> v) { entries.emplace_back(std::move(n), v); }
  };
  Log log;
  Tensor w = row({1, 2}).requires_grad_();
  optim::SGD opt({w}, {.lr = 0.125});
  auto step = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor l = (w * x).square().sum();
    log.add("loss", l.item<float>());
    l.backward();
    log.add("grad", w.grad().abs().sum().item<float>());
    opt.step();
    log.add("w", w.sum().item<float>());
  });
  for (int i = 0; i < 7; ++i) {
    step(row({1, float(i % 3)}));
    if (i % 3 == 2) {
      for (auto& [n, v] : log.entries) run.log(n, v);
      log.entries.clear();
    }
    opt.lr = 0.125 / (i + 1);
  }
  for (auto& [n, v] : log.entries) run.log(n, v);
}

TENON_PROGRAM(NumbersInContainersOfResults, 6) {
  // Numbers that come back out of a body in containers, and go in again.
  struct State {
    Tensor x;
    Scalar<double> best;
    std::map<std::string, Scalar<int64_t>> counts;
    std::optional<Scalar<bool>> done;
  };
  auto f = run.compile([](const State& s, const Tensor& x) {
    State out = s;
    out.x = s.x * 0.5 + x;
    out.best = (out.x.max() + s.best.value() * 0.0).item<double>();
    out.counts["pos"] = (out.x > 0).sum().item<int64_t>();
    if (out.counts.size() < 2) out.counts["first"] = out.x.argmax().item<int64_t>();
    if (s.done)
      out.done.reset();
    else
      out.done = (out.x.sum() > 0).item<bool>();
    return out;
  });
  State s{halves({3}), 0.0, {}, {}};
  for (int i = 0; i < 6; ++i) {
    s = f(s, halves({3}, i));
    run.log(s.x, s.best, s.counts["pos"], s.counts["first"], s.done.has_value());
    if (s.done) run.log(*s.done);
    if (i == 3) s.counts.clear();
  }
}

TENON_PROGRAM(NumbersOverTwoLevels, 8) {
  // Two levels of callables that both break, with results pending over the borders.
  Tensor log = zeros({2});
  auto a = run.compile([&](const Tensor& x) {
    Tensor h = x * 2.0;
    log.add_(h);
    if (h.sum().item<float>() > 1) h = h - log;
    return std::pair(h, h.sum().item<float>());
  });
  auto b = run.compile([&](const Tensor& x, int n) {
    Tensor y = x + 1.0;
    float total = 0;
    std::vector<Scalar<float>> sums;
    for (int i = 0; i < n; ++i) {
      auto [h, s] = a(y);
      sums.push_back(s);
      y = h * 0.5 + y;
      log.mul_(0.5);
      if (i == 1) total += s;
    }
    for (auto& s : sums) total += s;
    return std::pair(y, total);
  });
  for (int i = 0; i < 8; ++i) {
    auto [y, t] = b(halves({2}, i), i % 4);
    run.log(y, t, log);
  }
}

TENON_PROGRAM(NumbersAsSizesAndFactors, 4) {
  auto f = run.compile([](const Tensor& x, const Tensor& n) {
    auto k = n.item<int64_t>();
    Tensor a = x.slice(0, 0, k.value());
    Tensor b = full({2}, k);
    Tensor c = eye(k.value() + 1);
    Tensor d = x.roll({k.value()});
    Tensor e = arange(k.value() + 1).to(Dtype::f32) * x[0];
    return std::tuple(a * k, b, c.sum(), d, e, x * k);
  });
  for (int i = 0; i < 6; ++i) {
    auto [a, b, c, d, e, g] = f(halves({5}, i), tensor(int64_t(i * 2 % 5)));
    run.log(a, b, c, d, e, g);
  }
}

// Settings change in bodies.
TENON_PROGRAM(FlagsChangeWithinTheBody, 8) {
  auto f = run.compile([](const Tensor& x, int how) {
    Tensor y = x * 2.0;
    auto patch = config::patch({{"dynamo.capture_scalar_outputs", how % 2 == 1}});
    SymInt n = (y.abs().sum() + 1.0).to(Dtype::i64).item<int64_t>();
    Tensor z = y * Number(n);
    if (how >= 2) {
      auto inner = config::patch({{"dynamo.capture_scalar_outputs", how % 2 == 0}});
      z = z + Number(z.sum().item<float>());
    }
    return z;
  });
  for (int i = 0; i < 8; ++i) run.log(f(halves({3}, i), i % 4));
}

// One call looks at once, the next behind an operation, behind a write, or not at all.
TENON_PROGRAM(LooksAtOtherPlacesInEachCall, 24) {
  Tensor state = ones({3});
  auto f = run.compile([&](const Tensor& x, int when) {
    Tensor y = x * 2.0 + state;
    Scalar<float> sum = y.sum().item<float>();
    if (when == 0 && sum > 0) y = y + 1.0;
    y = y * 0.5;
    if (when == 1 && sum > 0) y = y - 1.0;
    state.add_(y);
    if (when == 2 && sum > 0) y = y * 3.0;
    return std::pair(when == 3 ? y * sum : y, sum);
  });
  for (int i = 0; i < 16; ++i) {
    auto [y, sum] = f(halves({3}, i), i * i % 7 % 4);
    run.log(y, sum, state);
    state.mul_(0.5);
  }
}

// Two numbers of one place: either is looked at first.
TENON_PROGRAM(EitherOfTwoNumbersIsLookedAtFirst, 16) {
  auto f = run.compile([](const Tensor& x, bool first) {
    Tensor y = x.relu();
    Scalar<float> most = y.max().item<float>(), sum = y.sum().item<float>();
    if (first ? most > 0.75f : sum > 1.25f) y = y * 2.0;
    if (first ? sum > 1.25f : most > 0.75f) y = y - 0.5;
    return y * most + sum;
  });
  for (int i = 0; i < 16; ++i) run.log(f(halves({4}, i), i % 3 == 0));
}

}  // namespace
}  // namespace tenon::programs
