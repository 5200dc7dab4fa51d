// Gradients that flow through several compiled calls, own derivatives and branches of the graph.
#include "program.h"

namespace tenon::programs {
namespace {

TENON_PROGRAM(ARecurrentCellOverManySteps, 3) {
  Tensor w = row({0.5, 0.25}).requires_grad_();
  auto cell = run.compile([&](const Tensor& x, const Tensor& h) {
    Tensor next = (h * w + x).relu();
    return std::pair(next.sum(), next);
  });
  for (int sequence = 0; sequence < 3; ++sequence) {
    w.set_grad({});
    Tensor h = zeros({2}), loss = zeros({});
    for (int i = 0; i < 6; ++i) {
      auto [part, next] = cell(row({1, float(i)}), h);
      loss = loss + part;
      h = i == 3 ? next.detach() : next;
    }
    loss.backward();
    run.log(loss.detach(), w.grad());
  }
}

TENON_PROGRAM(TwoCallablesBehindEachOther, 4) {
  Tensor a = row({1, 2}).requires_grad_(), b = row({4, 8}).requires_grad_();
  auto first = run.compile([&](const Tensor& x) { return (x * a).relu(); });
  auto second = run.compile([&](const Tensor& h) { return (h * b * h).sum(); });
  for (int i = 0; i < 4; ++i) {
    a.set_grad({}), b.set_grad({});
    b.requires_grad_(i % 2 == 0);
    Tensor loss = second(first(row({1, float(i) - 1})));
    loss.backward();
    run.log(loss.detach(), a.grad(), b.grad());
  }
}

// Several losses are kept, their mean is minimised: parts of a list have no gradient of their own.
TENON_PROGRAM(LossesAreKeptBesideTheirMean, 8) {
  Tensor w = full({4, 2}, 0.5).requires_grad_();
  auto losses = run.compile([&](const Tensor& a, const Tensor& b) {
    std::vector<Tensor> all = {a.mm(w).mean(), b.mm(w).sum(), (a.mm(w) * 2.0).mean()};
    return std::pair(stack(all).mean(), all);
  });
  auto rows = run.compile([&](const Tensor& a) {
    Tensor both = cat({a.mm(w), a.mm(w) * 0.5}, 1);
    std::vector<Tensor> parts = both.split(2, 1);
    return std::pair(both.narrow(0, 1, 1).sum(), parts);
  });
  for (int i = 0; i < 6; ++i) {
    w.set_grad({});
    auto [loss, all] = losses(ones({3 + i % 3, 4}), ones({2, 4}) * (0.5 * i));
    if (i % 2) loss = loss + all[1];
    loss.backward();
    auto [row, parts] = rows(ones({2 + i % 2, 4}));
    if (i % 3 == 1) row = row + parts[i % 2].sum();
    row.backward();
    run.log(loss, all, row, parts, w.grad());
  }
}

TENON_PROGRAM(TheGradientOfAGradientOutside, 2) {
  auto f = run.compile([](const Tensor& x) { return (x * x * x).sum(); });
  for (int i = 0; i < 3; ++i) {
    Tensor x = row({1, float(i)}).requires_grad_();
    Tensor g = autograd::grad({f(x)}, {x}, {.create_graph = true})[0];
    g.sum().backward();
    run.log(g.detach(), x.grad());
  }
}

TENON_PROGRAM(BackwardTwiceThroughOneCall, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return (x * w * w).sum(); });
  for (int i = 0; i < 3; ++i) {
    Tensor loss = f(row({1, float(i)}));
    loss.backward({}, true);
    loss.backward();
    run.log(w.grad());
    run.log_error([&] { loss.backward(); });
  }
}

struct Clip : autograd::Function<Clip> {
  static std::vector<Tensor> forward(autograd::Context& c, const std::vector<Tensor>& in) {
    c.save_for_backward({in[0]});
    return {in[0].clamp_max(2.0)};
  }
  static std::vector<Tensor> backward(autograd::Context& c, std::vector<Tensor> grads) {
    return {grads[0] * 0.5 + c.saved_tensors()[0]};
  }
};

TENON_PROGRAM(ADerivativeOfOnesOwn, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return (Clip::apply({x * w})[0] * 4.0).sum(); });
  for (int i = 0; i < 4; ++i) {
    w.set_grad({});
    f(row({1, float(i)})).backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(BranchesOfTheGraphWithNumbersThatChange, 4) {
  Tensor w = row({1, 2}).requires_grad_();
  double factor = 2;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = cond(
        x.sum() > 2, [&](const Tensor& t) { return t * w * factor; },
        [&](const Tensor& t) { return t - w; }, x);
    return y.sum();
  });
  for (int i = 0; i < 6; ++i) {
    w.set_grad({});
    f(row({1, float(i % 3)})).backward();
    run.log(w.grad());
    factor += i % 2;
  }
}

TENON_PROGRAM(ALoopOfTheGraph, 3) {
  Tensor step = row({1, 2});
  auto f = run.compile([&](const Tensor& x) {
    return while_loop([](const Tensor& y) { return y.sum() < 20; },
                      [&](const Tensor& y) { return y * 2.0 + step; }, x);
  });
  for (int i = 0; i < 6; ++i) {
    run.log(f(row({1, float(i)})));
    if (i == 2) step = row({4, 0});
  }
}

TENON_PROGRAM(AnArgumentThatNeedsAGradientIsWritten, 2) {
  auto f = run.compile([](const Tensor& h, const Tensor& x) {
    h.mul_(x);
    return h.sum();
  });
  for (int i = 0; i < 3; ++i) {
    Tensor w = row({1, 2}).requires_grad_();
    Tensor h = w * 2.0;
    Tensor loss = f(h, row({1, float(i)}));
    (loss + h.sum()).backward();
    run.log(loss.detach(), h.detach(), w.grad());
  }
}

TENON_PROGRAM(ResultsAreDetachedOrNot, 2) {
  Tensor w = row({1, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * w;
    return std::tuple(y.detach(), y, (y > 1).to(Dtype::f32), y.sum());
  });
  for (int i = 0; i < 3; ++i) {
    auto [d, y, mask, sum] = f(row({1, float(i)}));
    run.log(d.requires_grad(), y.requires_grad(), mask.requires_grad(), sum.requires_grad());
    d.add_(1.0);
    run.log(d, y.detach(), mask);
  }
}

TENON_PROGRAM(AViewOfAWeightIsWrittenUnderNoGrad, 2) {
  Tensor w = arange(4, Dtype::f32).reshape({2, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    {
      NoGradGuard no_grad;
      w.select(0, 0).mul_(0.5);
    }
    return (x * w).sum();
  });
  for (int i = 0; i < 3; ++i) {
    w.set_grad({});
    f(row({1, float(i)})).backward();
    run.log(w.detach(), w.grad());
  }
}

// What the backward needs of an argument that the caller writes meanwhile, the body has copied.
TENON_PROGRAM(ACopyOfAnArgumentThatIsWrittenBeforeTheBackward, 2) {
  Tensor w = arange(6, Dtype::f32).reshape({3, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor same = x.clone(), rounded = x.to(Dtype::f64).to(Dtype::f32).clone();
    return same.matmul(w).pow(2).sum() + rounded.t().matmul(same.detach()).matmul(w).sum();
  });
  for (int i = 0; i < 4; ++i) {
    w.set_grad({});
    Tensor x = row({0.5, -0.25, float(i)}).unsqueeze(0);
    Tensor loss = f(x);
    x.add_(1.0);
    loss.backward();
    run.log(loss.detach(), w.grad());
  }
}

// What stood there before gets a zero, as in PyTorch.
TENON_PROGRAM(AComparisonInPlaceHasNoGradient, 2) {
  Tensor w = arange(4, Dtype::f32).reshape({2, 2}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * w;
    y.select(0, 0).logical_not_();
    Tensor z = y * w;
    z.t().eq_(2.0);
    return std::pair(y, z);
  });
  for (int i = 0; i < 3; ++i) {
    w.set_grad({});
    auto [y, z] = f(row({1, float(i)}));
    (y.sum() * 2.0 + z.sum()).backward();
    run.log(y, z, w.grad());
  }
}

// The form that gives its result has the same gradients.
TENON_PROGRAM(AResultOfAComparisonIsUsed, 8) {
  Tensor w = row({0.25, 0.5, 1, 2}).requires_grad_();
  using Write = std::function<void(const Tensor&, const Tensor&)>;
  const Write writes[] = {
      [](const Tensor& v, const Tensor&) { v.gt_(1.5); },
      [](const Tensor& v, const Tensor& x) { v.le_(x); },
      [](const Tensor& v, const Tensor& x) { v.logical_and_(x); },
      [](const Tensor& v, const Tensor&) { v.floor_divide_(2); },
      [](const Tensor& v, const Tensor& x) { v.slice(0, 1, 3).ne_(x.slice(0, 0, 2)); },
  };
  for (const Write& write : writes) {
    auto f = run.compile([&](const Tensor& x) {
      Tensor v = x * 3, same = v.detach().clone();
      write(v, x);
      write(same, x.detach());
      return std::pair((v * x).sum(), (same * x).sum());
    });
    for (int i = 0; i < 2; ++i) {
      auto [in_place, apart] = f(w);
      for (const Tensor& loss : {in_place, apart}) {
        w.set_grad({});
        loss.backward({}, true);
        run.log(loss, w.grad());
      }
    }
  }
}

TENON_PROGRAM(AComparisonWithWhatNeedsAGradient, 4) {
  Tensor w = row({0.25, 0.5}).requires_grad_();
  auto f = run.compile([](const Tensor& x) {
    Tensor m = zeros({2}), rows = stack({x, x}) * 1;
    m.lt_(x);
    rows[1].eq_(rows[0]);
    return std::pair(m, rows);
  });
  for (int i = 0; i < 3; ++i) {
    auto [m, rows] = f(w);
    run.log(m, m.requires_grad(), rows);
    w.set_grad({});
    rows.sum().backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(PartsOfAComplexTensorAreResults, 4) {
  Tensor w = ones({1, 2, 2}).requires_grad_(), c = complex(w, w * 2);
  auto f = run.compile([&](const Tensor& x) {
    return std::pair(c.unsafe_chunk(2, 1)[0], x.as_strided({2, 3}, {1, 1}));
  });
  for (int i = 0; i < 3; ++i) {
    w.set_grad({});
    auto [part, seen] = f(view_as_complex(stack({w, w}, -1)).view({4}));
    (view_as_real(part).sum() * 2 + view_as_real(seen).sum()).backward({}, true);
    run.log(w.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
