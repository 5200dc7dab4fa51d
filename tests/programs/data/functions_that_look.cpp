// Functions with a derivative of their own whose forward looks at data: each look ends a segment, and
// the function gets its place on the tape between two of them, also in runs along the recorded path.
#include "program.h"

namespace tenon::programs {
namespace {

using autograd::Context;
using autograd::Function;
using List = std::vector<Tensor>;

/// z = z·w + x, until it is large enough. The derivative takes the number of turns for fixed.
struct Grown : Function<Grown> {
  static List forward(Context& c, const List& in) {
    Tensor z = zeros_like(in[0]);
    int turns = 0;
    for (; turns < 6; ++turns) {
      z = z * in[1] + in[0];
      if (z.abs().sum().item<float>() > 8) break;
    }
    c.user = std::make_shared<int>(turns);
    c.save_for_backward({z, in[1]});
    return {z};
  }
  static List backward(Context& c, List grads) {
    List saved = c.saved_tensors();
    double turns = 1 + *static_cast<int*>(c.user.get());
    return {grads[0] * saved[1] * turns, (grads[0] * saved[0]).sum()};
  }
};

/// Gives what the last turn has made, and what it has made after its last look.
struct GrownTwice : Function<GrownTwice> {
  static List forward(Context& c, const List& in) {
    Tensor z = in[0] * 2;
    while (z.sum().item<float>() < 4) z = z + 1;
    Tensor later = z * in[1];
    c.save_for_backward({in[0], z});
    return {z, later, later.argmax()};
  }
  static List backward(Context& c, List grads) {
    List saved = c.saved_tensors();
    return {grads[0] + grads[1] * saved[0], (grads[1] * saved[1]).sum()};
  }
};

/// Writes its input, by what it reads there.
struct ClippedInPlace : Function<ClippedInPlace> {
  static List forward(Context& c, List in) {
    double most = in[0].max().item<float>();
    in[0].mul_(most > 2 ? 0.5 : 2);
    c.mark_dirty({in[0]});
    bool halves = in[0].max().item<float>() < most;
    c.user = std::make_shared<bool>(halves);
    return {in[0]};
  }
  static List backward(Context& c, List grads) {
    return {grads[0] * (*static_cast<bool*>(c.user.get()) ? 0.25 : 4)};
  }
};

template <class F>
void log_follows(Run& run, const F& f) {
  run.log(run.is_plain() || f.is_followed());
}

TENON_PROGRAM(TurnsDependOnData, 12) {
  Tensor w = tensor(0.5f).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return Grown::apply({x * 0.5, w})[0] * 3; });
  for (float start : {1.f, 1.f, 4.f, 2.f, 1.f, 8.f, 4.f}) {
    Tensor x = row({start, 2, 1}).requires_grad_();
    Tensor y = f(x);
    y.sum().backward();
    run.log(y.detach(), x.grad(), w.grad());
  }
  log_follows(run, f);
}

TENON_PROGRAM(OneAfterAnother, 16) {
  Tensor w = tensor(0.5f).requires_grad_(), u = tensor(0.25f).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = Grown::apply({x * u, w})[0];
    Tensor k = Grown::apply({h + x, u})[0];
    return std::pair(k.tanh(), h.requires_grad() && k.requires_grad());
  });
  for (float start : {1.f, 1.f, 4.f, 4.f, 1.f}) {
    auto [y, needs] = f(row({start, 2, 1}));
    y.sum().backward();
    run.log(y.detach(), needs, w.grad(), u.grad());
  }
  log_follows(run, f);
}

TENON_PROGRAM(ResultsOfTwoSegments, 12) {
  Tensor w = tensor(0.5f).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    List r = GrownTwice::apply({x, w});
    return std::tuple(r[0] * 2, r[1].exp(), r[2]);
  });
  for (float start : {2.f, 2.f, 0.5f, 3.f, 0.5f}) {
    Tensor x = row({start, 0, -1}).requires_grad_();
    auto [a, b, c] = f(x);
    (a.sum() + b.sum()).backward();
    run.log(a.detach(), b.detach(), c, c.requires_grad(), x.grad(), w.grad());
  }
  log_follows(run, f);
}

TENON_PROGRAM(AnInputIsWritten, 12) {
  Tensor w = tensor(0.5f).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w, view = h.narrow(0, 0, 1);
    Tensor y = ClippedInPlace::apply({h})[0];
    return std::pair(y * 3 + h, view * 1.0);
  });
  for (float start : {2.f, 2.f, 8.f, 8.f, 2.f}) {
    auto [y, view] = f(row({start, 1}));
    (y.sum() + view.sum()).backward();
    run.log(y.detach(), view.detach(), w.grad());
  }
}

TENON_PROGRAM(ItIsAppliedNowAndThen, 16) {
  Tensor w = tensor(0.5f).requires_grad_();
  bool applies = true;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * 0.5, k;
    if (applies) {
      k = Grown::apply({h, w})[0];
    } else {
      NoGradGuard no_grad;
      Context unused;
      k = Grown::forward(unused, {h, w})[0];
    }
    bool needs = k.requires_grad();
    return std::pair(k * w, needs);
  });
  for (int i : {1, 1, 0, 0, 1, 0, 1}) {
    applies = i;
    w.set_grad({});
    auto [y, needs] = f(row({1, 2, 1}));
    y.sum().backward();
    run.log(y.detach(), needs, w.grad());
  }
}

TENON_PROGRAM(NeedsComeAndGo, 16) {
  Tensor w = tensor(0.5f), v = tensor(2.0f).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return Grown::apply({x, w})[0] * v; });
  for (int i : {0, 0, 1, 1, 0, 1}) {
    w.requires_grad_(i);
    w.set_grad({});
    Tensor y = f(row({1, 2, 1}));
    y.sum().backward();
    run.log(y.detach(), v.grad());
    if (i) run.log(w.grad());
  }
  NoGradGuard no_grad;
  for (int i = 0; i < 2; ++i) run.log(f(row({1, 2, 1})).requires_grad());
}

TENON_PROGRAM(TurnsOfALoopThatLooks, 24) {
  Tensor w = tensor(0.5f).requires_grad_();
  auto f = run.compile([&](Tensor x) {
    for (int i = 0; i < 3; ++i) {
      x = Grown::apply({x, w})[0] * 0.25;
      if (x.sum().item<float>() > 6) break;
    }
    return x;
  });
  for (float start : {1.f, 1.f, 16.f, 16.f, 1.f}) {
    w.set_grad({});
    Tensor y = f(row({start, 2, 1}));
    y.sum().backward();
    run.log(y.detach(), w.grad());
  }
  log_follows(run, f);
}

/// Refuses what it finds.
struct Refuses : Function<Refuses> {
  static List forward(Context&, const List& in) {
    Tensor z = in[0] * in[1];
    if (z.sum().item<float>() > 4) throw std::runtime_error("too large");
    return {z + 1};
  }
  static List backward(Context&, List grads) { return {grads[0], grads[0].sum()}; }
};

TENON_PROGRAM(ItEndsWithAnError, 12) {
  Tensor w = tensor(0.5f).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return Refuses::apply({x, w})[0] * 2; });
  for (float start : {1.f, 1.f, 16.f, 1.f, 16.f}) {
    run.log_error([&] {
      Tensor y = f(row({start, 2, 1}));
      y.sum().backward();
      run.log(y.detach(), w.grad());
    });
  }
}

TENON_PROGRAM(HooksSeeItsGradients, 12) {
  Tensor w = tensor(0.5f).requires_grad_();
  List seen;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * w;
    autograd::register_hook(h, [&](const Tensor& g) { seen.push_back(g); });
    Tensor k = Grown::apply({h, w})[0];
    autograd::register_hook(k, [&](const Tensor& g) { seen.push_back(g); });
    return k * k;
  });
  for (float start : {1.f, 1.f, 8.f, 1.f}) {
    seen.clear();
    Tensor y = f(row({start, 2, 1}));
    y.sum().backward();
    run.log(y.detach(), w.grad(), seen.size());
    for (const Tensor& g : seen) run.log(g);
  }
}

/// Keeps what it has made beside the tape, and gives a tensor that it has not made.
struct KeepsInUser : Function<KeepsInUser> {
  static List forward(Context& c, const List& in) {
    Tensor z = in[0] * in[1];
    while (z.sum().item<float>() < 4) z = z + 1;
    c.user = std::make_shared<Tensor>(z);
    return {z * 2, in[2]};
  }
  static List backward(Context& c, List grads) {
    const Tensor& z = *static_cast<Tensor*>(c.user.get());
    return {grads[0] * z, (grads[0] * z).sum(), grads[1]};
  }
};

TENON_PROGRAM(AContextKeepsTensors, 16) {
  Tensor w = tensor(0.5f).requires_grad_(), other = row({1, 2, 3});
  auto f = run.compile([&](const Tensor& x) {
    List r = KeepsInUser::apply({x, w, other});
    return std::pair(r[0] * 3, r[1] * 2);
  });
  for (float start : {1.f, 1.f, 16.f, 16.f, 1.f}) {
    w.set_grad({});
    auto [a, b] = f(row({start, 2, 1}));
    (a.sum() + b.sum()).backward();
    run.log(a.detach(), b.detach(), b.requires_grad(), other.requires_grad(), w.grad());
  }
}

/// Its forward has gradients of its own, which it looks at.
struct TakesNewtonSteps : Function<TakesNewtonSteps> {
  static List forward(Context& c, const List& in) {
    Tensor z = ones_like(in[0]);
    for (int i = 0; i < 8; ++i) {
      EnableGradGuard grad;
      Tensor at = z.detach().requires_grad_();
      Tensor loss = (at * at - in[0].detach()).square().sum();
      if (loss.item<float>() < 0.5) break;
      z = at.detach() - autograd::grad({loss}, {at})[0] * 0.03125;
    }
    c.save_for_backward({z});
    return {z};
  }
  static List backward(Context& c, List grads) { return {grads[0] / (c.saved_tensors()[0] * 2)}; }
};

TENON_PROGRAM(GradientsInForward, 24) {
  Tensor w = tensor(0.5f).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return TakesNewtonSteps::apply({x * w})[0] * 2; });
  for (float start : {8.f, 8.f, 2.f, 2.f, 8.f}) {
    w.set_grad({});
    Tensor y = f(row({start, 4, 8}));
    y.sum().backward();
    run.log(y.detach(), w.grad());
  }
}

TENON_PROGRAM(ABodyTrains, 24) {
  Tensor w = tensor(0.5f).requires_grad_(), u = row({1, 2, 3}).requires_grad_();
  optim::SGD opt({w, u}, {.lr = 0.03125});
  auto f = run.compile([&](const Tensor& x) {
    opt.zero_grad();
    Tensor loss = (Grown::apply({x * u, w})[0] - 2).square().mean();
    loss.backward();
    opt.step();
    return loss.detach();
  });
  for (int i = 0; i < 6; ++i) run.log(f(row({1, 2, float(i % 2)})), w, u);
  log_follows(run, f);
}

TENON_PROGRAM(WeightsAreReplaced, 12) {
  Tensor w = tensor(0.5f).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return Grown::apply({x, w})[0] * w; });
  for (int i = 0; i < 6; ++i) {
    if (i % 2) w = tensor(0.25f * static_cast<float>(i)).requires_grad_();
    Tensor y = f(row({1, 2, 1}));
    y.sum().backward();
    run.log(y.detach(), w.grad());
  }
}

TENON_PROGRAM(FunctionsStayOutOfGraphs, 8) {
  auto scope = config::patch({{"dynamo.capture_autograd_function", false}});
  Tensor w = tensor(0.5f).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    return Refuses::apply({x * 0.5, w})[0] * GrownTwice::apply({x, w})[1];
  });
  for (float start : {1.f, 1.f, 2.f, 1.f}) {
    Tensor y = f(row({start, 2, 1}));
    y.sum().backward();
    run.log(y.detach(), w.grad());
  }
  log_follows(run, f);
}

}  // namespace
}  // namespace tenon::programs
