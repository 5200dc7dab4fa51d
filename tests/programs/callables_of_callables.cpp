// Compiled callables in others, in containers, in functions of the tape and of control flow.
#include "program.h"

#include <tenon/control_flow.h>

#include <map>

namespace tenon::programs {
namespace {

TENON_PROGRAM(LayersByName, 6) {
  using Layer = CompiledFunction<Tensor(const Tensor&)>;
  std::map<std::string, Layer> layers;
  double k = 1;
  auto make = [&](double s) -> Layer {
    return compile([&k, s](const Tensor& x) { return x * s + k; }, run.with_backend({}));
  };
  layers["a"] = make(2);
  layers["b"] = make(0.5);
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x;
    for (auto& [n, l] : layers) h = l(h).relu();
    return h;
  });
  for (int i = 0; i < 9; ++i) {
    k = i % 3;
    run.log(f(halves({2 + i % 2}, i)), layers.begin()->second(halves({2}, i)));
    if (i == 3) layers.erase("a");
    if (i == 5) layers["c"] = make(-1);
    if (i == 6) layers["b"].reset();
    if (i == 7) layers["b"] = layers["c"];
  }
}

TENON_PROGRAM(APureOneAmongOthers, 6) {
  Tensor w = row({1, 2});
  double k = 1;
  auto f = run.compile([&w](const Tensor& x, double s) { return x * w * s; }, {.pure = true});
  auto g = run.compile([&](const Tensor& x) { return f(x, k) + f(x, 2.0) + w; });
  for (int i = 0; i < 8; ++i) {
    k = i % 3;
    run.log(g(halves({2}, i)), f(halves({2}, i), k));
    if (i == 2) w = row({3, 1});
    if (i == 4) w.mul_(2.0);
    if (i == 5) w = halves({2}, 2).t();
  }
}

TENON_PROGRAM(ACallableInBranches, 4) {
  auto inner = run.compile([](const Tensor& x) { return x.relu() * 2.0; });
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = cond(
        x.sum() > 0, [&](const Tensor& t) { return inner(t) + 1.0; },
        [&](const Tensor& t) { return inner(-t); }, x);
    Tensor z = map([&](const Tensor& t) { return inner(t).sum(); }, y.unsqueeze(1));
    return y + z;
  });
  for (int i = 0; i < 5; ++i) run.log(f(halves({3}, i)), inner(halves({2}, i)));
}

struct Calls : autograd::Function<Calls> {
  static inline std::function<Tensor(const Tensor&)> inside;
  static std::vector<Tensor> forward(autograd::Context& c, const std::vector<Tensor>& in) {
    c.save_for_backward({in[0]});
    return {inside(in[0])};
  }
  static std::vector<Tensor> backward(autograd::Context& c, std::vector<Tensor> g) {
    return {inside(c.saved_tensors()[0]) * g[0]};
  }
};
TENON_PROGRAM(ACallableInAFunction, 2) {
  Tensor k = row({2, 3});
  auto inner = run.compile([&](const Tensor& x) { return x * k + 1.0; });
  Calls::inside = inner;
  Tensor w = row({1, -1}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return (Calls::apply({x * w})[0] * x).sum(); });
  for (int i = 0; i < 5; ++i) {
    w.set_grad({});
    f(row({1, float(i)})).backward();
    run.log(w.grad());
    if (i == 2) k = row({1, 0.5});
    if (i == 3) k.mul_(2.0);
  }
  Calls::inside = nullptr;
}

TENON_PROGRAM(ACallableInAHook, 4) {
  Tensor scale = ones({2});
  auto inner = run.compile([&](const Tensor& g) { return g * scale; });
  Tensor w = row({1, 2}).requires_grad_();
  autograd::register_hook(w, [&](const Tensor& g) { return inner(g); });
  auto f = run.compile([&](const Tensor& x) {
    Tensor l = (x * w).square().sum();
    l.backward();
    scale.mul_(0.5);
    return l.detach();
  });
  for (int i = 0; i < 5; ++i) {
    w.set_grad({});
    run.log(f(row({1, float(i)})), w.grad());
    if (i == 2) scale = row({4, 2});
  }
}

TENON_PROGRAM(CallablesOfOneType, 10) {
  std::vector<Run::Callable<std::function<Tensor(const Tensor&)>>> all;
  for (int k = 0; k < 4; ++k)
    all.push_back(run.compile(std::function<Tensor(const Tensor&)>(
        [k](const Tensor& x) { return x * double(k) + double(k * k); })));
  for (int i = 0; i < 8; ++i) {
    run.log(all[size_t(i * 3 % 4)](halves({1 + i % 3}, i)));
    if (i == 4) std::swap(all[0], all[1]);
    if (i == 5) all.erase(all.begin());
    if (i == 5) all.push_back(all[0]);
  }
}

TENON_PROGRAM(ACallableThatCallsItself, 12) {
  std::function<Tensor(const Tensor&, int)> self;
  auto f = run.compile([&](const Tensor& x, int n) -> Tensor {
    if (n <= 0) return x;
    Tensor h = x * 0.5 + double(n);
    if (h.sum().item<float>() > 4) return self(h - 1.0, n - 2);
    return self(h, n - 1) * 2.0;
  });
  self = f;
  for (int n : {0, 1, 3, 2, 5, 3}) run.log(f(halves({2}, n), n));
}

TENON_PROGRAM(TheInnerOneIsResetAndLeftOut, 10) {
  auto inner = run.compile([](const Tensor& x, double k) { return (x * k).relu(); });
  auto f = run.compile([&](const Tensor& x, int how) {
    Tensor y = x + 1.0;
    if (how == 1) inner.reset();
    if (how == 2) {
      NoCompile off;
      y = inner(y, 2.0);
    }
    if (how == 3) graph_break();
    y = inner(y, double(how));
    if (how == 4) {
      NoGradGuard off;
      y = y + inner(y, 3.0);
    }
    return inner(y, 0.5) + y;
  });
  for (int i = 0; i < 12; ++i) {
    if (i == 6) inner(halves({5}), 1.0);
    run.log(f(halves({2 + i % 2}, i), i % 6));
  }
}

// Pure callables in cut bodies, with state of the caller around them.
TENON_PROGRAM(APureOneInACutBody, 12) {
  Tensor w = halves({2}, 1);
  auto pure = run.compile([&w](const Tensor& x) { return x * w + w.sum(); }, {.pure = true});
  int n = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = pure(x);
    ++n;
    if (y.sum().item<float>() > 0) y = pure(y * 0.5);
    w.add_(0.25);
    return pure(y) + double(n);
  });
  for (int i = 0; i < 7; ++i) {
    run.log(f(halves({2}, i)), pure(halves({2}, i)));
    if (i == 2) w = halves({2}, 3);
    if (i == 4) w = halves({1}, 3);
  }
}

TENON_PROGRAM(CallablesInLoopsOfTheGraph, 4) {
  // while_loop, scan and cond whose functions use scalars, captured lists and other callables.
  std::vector<Tensor> ws{halves({2}), halves({2}, 1)};
  double k = 1;
  auto helper = run.compile([&](const Tensor& t) { return t * k + 0.5; });
  auto f = run.compile([&](const Tensor& xs) {
    auto [last, ys] = scan(
        [&](const Tensor& c, const Tensor& x) {
          Tensor h = cond(
              x.sum() > 0, [&](const Tensor& t) { return helper(t) * ws[0]; },
              [&](const Tensor& t) { return t + ws.back(); }, x + c);
          return std::pair(h * 0.5, h.sum());
        },
        zeros({2}), xs);
    auto [n, t] = while_loop(
        [](const Tensor& n, const Tensor& t) { return (t.abs().sum() < 8) & (n < 6); },
        [&](const Tensor& n, const Tensor& t) { return std::tuple(n + 1, helper(t) * 1.5); },
        zeros({}, Dtype::i64), last);
    return std::tuple(ys, n, t);
  });
  for (int i = 0; i < 7; ++i) {
    auto [a, b, c] = f(halves({2 + i % 3, 2}, i));
    run.log(a, b, c);
    if (i == 2) k = 0.5;
    if (i == 3) ws.push_back(halves({2}, 4));
    if (i == 4) ws[0].mul_(2.0);
    if (i == 5) ws.erase(ws.begin());
  }
}

// cond, while_loop, scan and map beside looks at data, with what they capture replaced.
TENON_PROGRAM(LoopsOfTheGraphBesideLooks, 4) {
  Tensor w = row({1, 2}), limit = full({}, 10.0);
  double k = 0.5;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    if (h.sum().item<float>() > 2) h = h - 1.0;
    Tensor y = cond(
        h.sum() > 0, [&](const Tensor& t) { return t * w + k; },
        [&](const Tensor& t) { return t - w * k; }, h);
    Tensor z = while_loop([&](const Tensor& t) { return t.abs().sum() < limit; },
                          [&](const Tensor& t) { return t * 2.0 + w; }, y);
    if (z[0].item<float>() > 3) z = z * 0.5;
    return z;
  });
  for (int i = 0; i < 8; ++i) {
    run.log(f(halves({2}, i)));
    if (i == 2) w = row({2, 1});
    if (i == 3) limit.mul_(2.0);
    if (i == 4) k = 1;
    if (i == 5) w.add_(0.5);
    if (i == 6) limit = full({}, 5.0);
  }
}

TENON_PROGRAM(AFunctionThatMeasures, 4) {
  std::vector<double> history;
  auto measure = disable([&](const Tensor& x) {
    history.push_back(x.sum().item<float>());
    return history.size();
  });
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * 2.0;
    size_t n = measure(y);
    y.add_(double(n));
    measure(y);
    return y;
  });
  for (int i = 0; i < 4; ++i) run.log(f(halves({2}, i)), history);
}

}  // namespace
}  // namespace tenon::programs
