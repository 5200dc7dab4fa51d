// What a body learns about a captured tensor besides its elements: size, dtype, strides, whether it
// needs a gradient, and the gradient that it has.
#include "program.h"

#include <stdexcept>

namespace tenon::programs {
namespace {

TENON_PROGRAM(ASizeIsRead, 4) {
  Tensor bank = ones({2, 3});
  auto f = run.compile([&](const Tensor& x) { return x * double(bank.size(0)); });
  for (int i = 0; i < 12; ++i) {
    run.log(f(row({1, 2})));
    if (i % 4 == 1) bank = ones({int64_t(i), 3});
  }
}

TENON_PROGRAM(ADtypeAndARankAreRead, 3) {
  Tensor w = ones({2});
  auto f = run.compile([&](const Tensor& x) {
    if (w.dtype() == Dtype::f64) return x.to(Dtype::f64) * w;
    return w.dim() == 1 ? x * w : x.matmul(w);
  });
  for (int i = 0; i < 9; ++i) {
    run.log(f(row({1, 2})));
    w = i % 3 == 1 ? full({2, 2}, float(i)) : full({2}, i, i % 3 ? Dtype::f32 : Dtype::f64);
  }
}

TENON_PROGRAM(AMatrixIsTransposedInPlace, 3) {
  Tensor m = arange(6, Dtype::f32).reshape({2, 3});
  auto f = run.compile([&](const Tensor& x) { return (m * x).sum(0); });
  for (int i = 0; i < 8; ++i) {
    run.log(f(full({}, 2.0)));
    if (i % 2) m.t_();
  }
}

TENON_PROGRAM(ATensorIsResizedInPlace, 4) {
  Tensor seen = ones({2});
  auto f = run.compile([&](const Tensor& x) { return seen.sum() + x; });
  for (int i = 0; i < 6; ++i) {
    run.log(f(full({}, 2.0)));
    seen.resize_({int64_t(i) + 2});
    seen.fill_(i);
  }
}

// The body reads what its operations have made of the tensor that it holds.
TENON_PROGRAM(SizesOfWhatTheBodyTurns, 24) {
  Tensor m = arange(6, Dtype::f32).reshape({2, 3}), o = ones({1, 3});
  auto f = run.compile([&](const Tensor& x, int how) {
    Tensor before = how >= 4 ? m.sum() : x.sum();
    Tensor* t = &m;
    switch (how % 4) {
      case 0:
        m.t_();
        break;
      case 1:
        m.unsqueeze_(0);
        break;
      case 2:
        m.resize_({2, 1 + how});
        m.fill_(1);
        break;
      default:
        t = &o;
        o.squeeze_(0).unsqueeze_(how == 3 ? 1 : 0);
    }
    std::string shape = to_text(t->sizes());
    if (t->dim() == 2 && t->size(0) == 3) shape += " three rows";
    return std::tuple(x * int64_t{t->numel()} + before, t->select(0, 0).sum(), shape);
  });
  for (int i = 0; i < 16; ++i) {
    auto [y, row, shape] = f(full({}, i), i % 8);
    run.log(y, row, shape, m, o);
    if (i % 3 == 2) m = arange(6, Dtype::f32).reshape({2, 3});
  }
}

TENON_PROGRAM_IN_ONE_GRAPH(SizesOfWhatTheBodyTurns, 24);

TENON_PROGRAM(ABodyTurnsWhatItHoldsAndThrows, 8) {
  Tensor t = ones({3, 4}), v = ones({2});
  int i = 0;
  auto f = run.compile([&](const Tensor& x) {
    v.add_(1.0);
    t.unsqueeze_(0);
    if (i % 2) throw std::runtime_error("mine");
    return x * int64_t{t.dim()};
  });
  for (i = 0; i < 5; ++i) {
    run.log_error([&] { run.log(f(ones({3, 4}))); });
    run.log(to_text(t.sizes()), v);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(ABodyTurnsWhatItHoldsAndThrows, 8);

struct Layers : nn::Module {
  nn::Linear first{2, 2}, second{2, 1};
  TENON_MODULE(Layers, first, second)
  Layers() {
    NoGradGuard no_grad;
    for (const Tensor& p : parameters()) p.fill_(0.5);
  }
  Tensor forward(const Tensor& x) const { return second(first(x)); }
};

void log_gradients(Run& run, const nn::Module& net) {
  for (const Tensor& p : net.parameters()) run.log(p.requires_grad(), p.grad());
}

TENON_PROGRAM(LayersAreFrozenAndThawed, 3) {
  Layers net;
  auto f = run.compile([&](const Tensor& x) { return net(x).sum(); });
  for (int i = 0; i < 8; ++i) {
    net.first.weight.requires_grad_(i % 4 >= 2);
    net.first.bias.requires_grad_(i % 4 >= 2);
    for (const Tensor& p : net.parameters()) p.set_grad({});
    Tensor loss = f(ones({3, 2}));
    run.log(loss, loss.requires_grad());
    loss.backward();
    log_gradients(run, net);
  }
}

TENON_PROGRAM(EverythingIsFrozenAtFirst, 2) {
  Layers net;
  for (const Tensor& p : net.parameters()) p.requires_grad_(false);
  auto f = run.compile([&](const Tensor& x) { return net(x).sum(); });
  run.log(f(ones({3, 2})).requires_grad());
  for (const Tensor& p : net.parameters()) p.requires_grad_(true);
  for (int i = 0; i < 3; ++i) {
    Tensor loss = f(ones({3, 2}));
    run.log(loss.requires_grad());
    loss.backward();
    log_gradients(run, net);
  }
}

TENON_PROGRAM(TheGradientOfAWeightIsLookedAt, 3) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f =
      run.compile([&](const Tensor& x) { return w.grad().defined() ? x * w.grad() : x - 1.0; });
  for (int i = 0; i < 9; ++i) {
    run.log(f(row({2, 4})));
    if (i % 3 == 0) w.set_grad(row({float(i), 1}));
    if (i % 3 == 2) w.set_grad({});
  }
}

TENON_PROGRAM(TheBodyAsksWhoNeedsAGradient, 2) {
  Tensor w = ones({2});
  auto f = run.compile([&](const Tensor& x) { return w.requires_grad() ? x * w : x * w * 0.5; });
  for (int i = 0; i < 8; ++i) {
    Tensor y = f(row({2, 4}));
    run.log(y, y.requires_grad(), w.is_leaf());
    if (i % 3 == 1) w.requires_grad_(!w.requires_grad());
  }
}

TENON_PROGRAM(AConstantBecomesAParameterOfAnotherLayout, 4) {
  Tensor w = arange(6, Dtype::f32).reshape({2, 3});
  auto f = run.compile([&](const Tensor& x) { return x.matmul(w); });
  for (int i = 0; i < 8; ++i) {
    Tensor y = f(row({1, 2}));
    run.log(y, y.requires_grad());
    if (i == 1) w = w.t().contiguous().t();
    if (i == 3) w = w.detach().clone().requires_grad_();
    if (i == 5) w = w.detach().slice(1, 0, 2);
  }
}

// Its size and that of the argument, which it is subtracted from, are one symbol or two that are equal.
TENON_PROGRAM(ACapturedTensorGrowsWithTheArgument, 6) {
  Tensor c;
  auto difference = run.compile([&](const Tensor& x) { return x - c; });
  auto product = run.compile([&](const Tensor& x) { return x.matmul(c); });
  auto rest = run.compile([&](const Tensor& x) { return c.cumsum(0) * 2.0 - x.relu(); });
  for (int64_t n = 3; n < 13; ++n) {
    c = halves({n}, int(n));
    Tensor x = halves({n});
    run.log(difference(x), product(x), rest(x));
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(ACapturedTensorGrowsWithTheArgument, 6);

TENON_PROGRAM(AStateGrowsWithTheArgument, 4) {
  struct {
    Tensor m;
  } state;
  auto f = run.compile([&](const Tensor& x) { return state.m = x - state.m; });
  for (int64_t n = 3; n < 13; ++n) {
    state.m = halves({n}, 1);
    run.log(f(halves({n})), f(halves({n}, 2)), state.m);
  }
}

}  // namespace
}  // namespace tenon::programs
