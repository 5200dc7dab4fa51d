// Functions with a derivative of their own inside of bodies: one graph, values and gradients of a
// plain run.
#include "program.h"

namespace tenon::programs {
namespace {

using autograd::Context;
using autograd::Function;
using List = std::vector<Tensor>;

/// x³, whose gradient is halved on purpose.
struct HalfCube : Function<HalfCube> {
  static List forward(Context& c, const List& in) {
    c.save_for_backward({in[0]});
    return {in[0] * in[0] * in[0]};
  }
  static List backward(Context& c, List grads) {
    Tensor x = c.saved_tensors()[0];
    return {grads[0] * x * x * 1.5};
  }
};

TENON_PROGRAM(AFunctionInABody, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    return (HalfCube::apply({h + 1.0})[0] * 0.5 + h).sum();
  });
  for (int i = 0; i < 4; ++i) {
    Tensor loss = f(row({1, float(i)}));
    loss.backward();
    run.log(loss.detach(), w.grad());
  }
  run.log("recorded anew", f.stats().replays, "breaks", f.stats().graph_breaks);
}
TENON_PROGRAM_IN_ONE_GRAPH(AFunctionInABody, 2);

TENON_PROGRAM(AFunctionFirstAndLast, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile(
      [&](const Tensor& x) { return HalfCube::apply({HalfCube::apply({w})[0] * x})[0]; });
  for (int i = 0; i < 3; ++i) {
    w.set_grad({});
    Tensor y = f(row({1, float(i)}));
    y.sum().backward();
    run.log(y.detach(), w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AFunctionFirstAndLast, 2);

/// Numbers in the context, of each call.
struct Scaled : Function<Scaled> {
  struct State {
    double factor;
  };
  static List forward(Context& c, const List& in) {
    c.user = std::make_shared<State>(State{current});
    return {in[0] * 2.0};
  }
  static List backward(Context& c, List grads) {
    return {grads[0] * static_cast<State*>(c.user.get())->factor};
  }
  static inline double current = 1;
};

TENON_PROGRAM(NumbersInTheContext, 3) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return (Scaled::apply({x * w})[0] * x).sum(); });
  List losses;
  for (int i = 0; i < 6; ++i) {
    Scaled::current = i * 0.5;
    losses.push_back(f(row({1, float(i)})));
  }
  for (const Tensor& loss : losses) {
    w.set_grad({});
    loss.backward();
    run.log(w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(NumbersInTheContext, 3);

/// Several inputs and results, one of them without a gradient, and some that nobody uses.
struct MinMax : Function<MinMax> {
  static List forward(Context& c, const List& in) {
    Tensor low = in[0].minimum(in[1]), high = in[0].maximum(in[1]);
    Tensor is_low = in[0] < in[1];
    c.save_for_backward({is_low, low});
    c.mark_non_differentiable({is_low});
    return {low, high, is_low};
  }
  static List backward(Context& c, List grads) {
    List saved = c.saved_tensors();
    Tensor mask = saved[0].to(Dtype::f32);
    Tensor of_low = grads[0] * saved[1];
    return {of_low * mask + grads[1] * (1.0 - mask),
            c.needs_input_grad(1) ? of_low * (1.0 - mask) + grads[1] * mask : Tensor()};
  }
};

TENON_PROGRAM(SeveralResults, 4) {
  Tensor a = row({1, 4}).requires_grad_(), b = row({3, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    List r = MinMax::apply({a * x, b});
    run.log(r[0].requires_grad(), r[2].requires_grad());
    return std::tuple((r[0] * 2.0).sum(), r[1].exp(), r[2]);
  });
  for (int i = 0; i < 4; ++i) {
    for (const Tensor& t : {a, b}) t.set_grad({});
    auto [low, high, mask] = f(row({1, float(i) * 0.25f}));
    if (i != 1) low.backward({}, true);
    if (i != 2) high.sum().backward();
    run.log(low.detach(), high.detach(), mask, a.grad(), b.grad());
    b.requires_grad_(i % 2);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(SeveralResults, 4);

/// The identity, whose gradient is turned around.
struct Reversed : Function<Reversed> {
  static List forward(Context&, const List& in) { return {in[0]}; }
  static List backward(Context&, List grads) { return {-grads[0]}; }
};

TENON_PROGRAM(AGradientIsReversed, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return (Reversed::apply({x * w})[0] + w).sum(); });
  for (int i = 0; i < 3; ++i) {
    f(row({1, float(i)})).backward();
    run.log(w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AGradientIsReversed, 2);

/// Rounding, with the gradient of the identity.
struct Rounded : Function<Rounded> {
  static List forward(Context& c, const List& in) {
    c.set_materialize_grads(false);
    return {in[0].round(), in[0].floor()};
  }
  static List backward(Context&, List grads) { return {grads[0].defined() ? grads[0] : grads[1]}; }
};

TENON_PROGRAM(GradientsThatAreNotMadeUp, 3) {
  Tensor w = row({1.25, 2.75}).requires_grad_();
  auto f = run.compile(
      [&](const Tensor& x, int which) { return Rounded::apply({x * w})[size_t(which)].sum(); });
  for (int i = 0; i < 4; ++i) {
    f(row({1, float(i)}), i % 2).backward();
    run.log(w.grad());
  }
}

/// Writes its input.
struct Doubled : Function<Doubled> {
  static List forward(Context& c, const List& in) {
    Tensor x = in[0];
    x.mul_(2.0);
    c.mark_dirty({x});
    return {x};
  }
  static List backward(Context&, List grads) { return {grads[0] * 3.0}; }
};

TENON_PROGRAM(AFunctionWritesItsInput, 3) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    Tensor y = Doubled::apply({h})[0];
    return (y * h).sum();
  });
  for (int i = 0; i < 3; ++i) {
    Tensor loss = f(row({1, float(i)}));
    loss.backward();
    run.log(loss.detach(), w.grad());
  }
}

TENON_PROGRAM(FunctionsAndGraphBreaks, 8) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = HalfCube::apply({x * w})[0];
    if (h.sum().item<float>() > 20) return HalfCube::apply({h * 0.125})[0].sum();
    Tensor k = Reversed::apply({h})[0] + h * 2.0;
    return k.mean().item<float>() > 2 ? k.sum() : HalfCube::apply({k})[0].sum();
  });
  for (int i = 0; i < 6; ++i) {
    w.set_grad({});
    Tensor loss = f(row({1, float(i) * 0.5f}));
    loss.backward();
    run.log(loss.detach(), w.grad());
  }
}

/// Looks at data on its way.
struct Looking : Function<Looking> {
  static List forward(Context& c, const List& in) {
    double scale = in[0].sum().item<float>() > 4 ? 0.5 : 2;
    c.user = std::make_shared<double>(scale);
    return {in[0] * scale};
  }
  static List backward(Context& c, List grads) {
    double scale = *static_cast<double*>(c.user.get());
    return {grads[0].sum().item<float>() > 0 ? grads[0] * scale : grads[0] * 8.0};
  }
};

TENON_PROGRAM(AFunctionLooksAtData, 10) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return (Looking::apply({x * w})[0] * x).sum(); });
  for (int i = 0; i < 6; ++i) {
    w.set_grad({});
    Tensor loss = f(row({1, float(i) - 2}));
    loss.backward();
    run.log(loss.detach(), w.grad());
  }
}

/// Counts what happens when.
struct Counted : Function<Counted> {
  static List forward(Context&, const List& in) {
    ++forwards;
    return {in[0] + 1.0};
  }
  static List backward(Context&, List grads) {
    ++backwards;
    return {grads[0] * double(weight)};
  }
  static inline int forwards = 0, backwards = 0, weight = 1;
};

// What backward reads, it reads in the backward pass.
TENON_PROGRAM(EffectsOfFunctions, 3) {
  Counted::forwards = Counted::backwards = 0, Counted::weight = 1;
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return Counted::apply({x * w})[0].sum(); });
  for (int i = 0; i < 5; ++i) {
    Tensor loss = f(row({1, float(i)}));
    Counted::weight = i + 2;
    run.log(Counted::forwards, Counted::backwards);
    loss.backward();
    run.log(w.grad(), Counted::forwards, Counted::backwards);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(EffectsOfFunctions, 3);

TENON_PROGRAM(AFunctionInAWholeStep, 5) {
  Tensor w = row({1, 2}).requires_grad_();
  auto step = run.compile([&](const Tensor& x) {
    w.set_grad({});
    Tensor loss = (HalfCube::apply({x * w})[0]).sum();
    loss.backward();
    NoGradGuard off;
    w.sub_(w.grad() * 0.015625);
    return loss.detach();
  });
  for (int i = 0; i < 4; ++i) run.log(step(row({1, float(i) * 0.5f})), w.detach());
}
TENON_PROGRAM_IN_ONE_GRAPH(AFunctionInAWholeStep, 2);

TENON_PROGRAM(FunctionsThatTakeTurns, 6) {
  Tensor w = row({1, 2}).requires_grad_();
  int calls = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    switch (calls++ % 4) {
      case 0:
        h = HalfCube::apply({h})[0];
        break;
      case 1:
        h = h * h * h;
        break;
      case 2:
        h = Reversed::apply({h})[0];
        break;
      default:
        break;
    }
    return (h * 2.0).sum();
  });
  for (int i = 0; i < 12; ++i) {
    w.set_grad({});
    f(row({1, float(i)})).backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(SecondDerivativesOfFunctions, 8) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return HalfCube::apply({x * w})[0].sum(); });
  for (int i = 1; i < 4; ++i) {
    auto first = autograd::grad({f(row({1, float(i)}))}, {w}, {.create_graph = true});
    auto second = autograd::grad({(first[0] * first[0]).sum()}, {w});
    run.log(first[0].detach(), second[0]);
  }
}

TENON_PROGRAM(HooksOnResultsOfFunctions, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w, y = HalfCube::apply({h})[0];
    autograd::register_hook(y, [&](const Tensor& g) { run.log("y", g); });
    autograd::register_hook(h, [](const Tensor& g) { return g * 0.5; });
    return (y * y).sum();
  });
  for (int i = 0; i < 3; ++i) {
    f(row({1, float(i)})).backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(FunctionsAndSizesThatChange, 5) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return HalfCube::apply({x * w})[0].relu().sum(); });
  for (int i = 2; i < 7; ++i) {
    f(ones({i, 2}) * 0.5).backward();
    run.log(w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(FunctionsAndSizesThatChange, 5);

/// Saves what it has computed on the way.
struct Normed : Function<Normed> {
  static List forward(Context& c, const List& in) {
    Tensor scale = (in[0] * in[0]).sum().rsqrt(), y = in[0] * scale;
    c.save_for_backward({y, scale});
    return {y};
  }
  static List backward(Context& c, List grads) {
    List saved = c.saved_tensors();
    return {(grads[0] - saved[0] * (grads[0] * saved[0]).sum()) * saved[1]};
  }
};

TENON_PROGRAM(AFunctionSavesWhatItComputes, 2) {
  Tensor w = row({3, 4}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return (Normed::apply({w})[0] * x).sum(); });
  for (int i = 0; i < 3; ++i) {
    f(row({1, float(i)})).backward();
    run.log(w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AFunctionSavesWhatItComputes, 2);

TENON_PROGRAM(AnErrorInABackward, 3) {
  struct Failing : Function<Failing> {
    static List forward(Context&, const List& in) { return {in[0] * 2.0}; }
    static List backward(Context&, List grads) {
      if (grads[0].size(0) == 3) throw std::runtime_error("three");
      return {grads[0]};
    }
  };
  auto f = run.compile([&](const Tensor& x) { return Failing::apply({x})[0].sum(); });
  for (int i = 2; i < 5; ++i) {
    Tensor x = ones({i}).requires_grad_();
    Tensor loss = f(x);
    run.log_error([&] { loss.backward(); });
    run.log(x.grad());
  }
}

/// Gives a tensor that it has not made, and one that its caller has made.
struct Passing : Function<Passing> {
  static List forward(Context& c, const List& in) {
    c.save_for_backward({in[1]});
    return {table, in[0] * 2.0};
  }
  static List backward(Context& c, List grads) {
    return {grads[1] * c.saved_tensors()[0] + grads[0], Tensor()};
  }
  static inline Tensor table;
};

TENON_PROGRAM(AFunctionThatGivesWhatItFinds, 8) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    List r = Passing::apply({x * w, x + 1.0});
    return (r[0] * r[1]).sum();
  });
  for (int i = 0; i < 3; ++i) {
    w.set_grad({});
    Passing::table = row({4, float(i)});
    Tensor loss = f(row({1, float(i)}));
    loss.backward();
    run.log(loss.detach(), w.grad());
  }
  Passing::table = Tensor();
}

/// Gives 1 as its gradient whatever arrives.
struct Constant : Function<Constant> {
  static List forward(Context& c, const List& in) {
    Tensor sign = in[0].sign();
    c.mark_non_differentiable({sign});
    return {sign, in[0] * 2.0};
  }
  static List backward(Context&, List grads) { return {ones_like(grads[1])}; }
};

// The second result is looked at beside the first one's use, and no gradient reaches it.
TENON_PROGRAM(AFunctionThatNoGradientReaches, 12) {
  Tensor w = row({1, 2}).requires_grad_(), v = row({3, 4}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    List r = Constant::apply({x * w});
    if (r[1].sum().item<float>() > 100) return x.sum();
    Tensor y = r[0] * 0.5 + v;
    if (r[1].sum().item<float>() > 100) return x.sum();
    return y.sum();
  });
  for (int i = 0; i < 4; ++i) {
    f(row({1, float(i)})).backward();
    run.log("reached", w.grad().defined(), v.grad());
  }
}

// `backward` is compiled in the middle of a pass, whose symbols are others.
TENON_PROGRAM(PassesInBodiesOfManySizes, 12) {
  Tensor w = row({1, 2}).requires_grad_();
  auto half = run.compile([](const Tensor& g) { return g * 0.5; });
  auto f = run.compile([&](const Tensor& x) {
    w.set_grad({});
    Tensor h = x * w;
    autograd::register_hook(h, [&](const Tensor& g) { return half(g); });
    HalfCube::apply({h})[0].sum().backward();
    return w.grad() * 1.0;
  });
  for (int n = 2; n < 9; ++n) run.log(f(ones({n, 2}) * 0.5));
}
TENON_PROGRAM_IN_ONE_GRAPH(PassesInBodiesOfManySizes, 12);

TENON_PROGRAM(ResetsBetweenPasses, 8) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return HalfCube::apply({x * w})[0].sum(); });
  for (int i = 0; i < 6; ++i) {
    f(row({1, float(i)})).backward();
    run.log(w.grad());
    if (i % 2) reset();
  }
}

TENON_PROGRAM(FunctionsOfSeveralThreads, 12) {
  auto f = run.compile([](const Tensor& x, const Tensor& w) {
    Tensor h = HalfCube::apply({x * w})[0];
    autograd::register_hook(h, [x](const Tensor& g) { return g * x.detach(); });
    return (h * 2.0).sum();
  });
  std::vector<List> found(4);
  in_threads(4, [&](int thread) {
    for (int i = 0; i < 20; ++i) {
      Tensor w = row({1, float(thread)}).requires_grad_();
      f(row({float(i), 2}), w).backward();
      found[size_t(thread)].push_back(w.grad());
    }
  });
  for (const List& gradients : found) run.log(gradients);
}

struct TwoProducts : Function<TwoProducts> {
  static List forward(Context&, const List& in) { return {in[0] * 2.0, in[0] * 3.0}; }
  static List backward(Context&, List grads) { return {grads[0] * 2.0 + grads[1] * 3.0}; }
};

// Beside a write operations go on the tape one by one, and the first result is there before the last.
TENON_PROGRAM(HooksOnEachResultBesideAWrite, 8) {
  for (size_t hooked : {0, 1})
    for (bool writes : {false, true}) {
      auto f = run.compile([&](const Tensor& x) {
        Tensor v = zeros({2});
        List products = TwoProducts::apply({x});
        autograd::register_hook(products[hooked], [](const Tensor& g) { return g * 4.0; });
        autograd::grad_fn(products[hooked]).register_prehook([](const List& g) {
          return List{g[0] * 0.5, g[1]};
        });
        products[hooked].retain_grad();
        if (writes) v.add_(1.0);
        return std::pair(v + products[0] + products[1], products[hooked]);
      });
      for (int i = 0; i < 3; ++i) {
        Tensor x = row({1, float(i)}).requires_grad_();
        auto [y, product] = f(x);
        y.sum().backward();
        run.log(x.grad(), product.grad());
      }
    }
}

}  // namespace
}  // namespace tenon::programs
