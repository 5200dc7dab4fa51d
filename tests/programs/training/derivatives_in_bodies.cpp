// Derivatives that a body takes itself, also of control flow and twice, within checkpoints, and where
// the tape stands between pieces of one graph.
#include "program.h"

#include <tenon/control_flow.h>

namespace tenon::programs {
namespace {

namespace ag = autograd;

// One step: `loss_of` a product of the weight is differentiated twice.
template <class F>
void differentiate_twice(Run& run, F loss_of) {
  Tensor w = row({0.5, 2, -1}).requires_grad_();
  auto step = run.compile(
      [&](const Tensor& x) {
        w.set_grad({});
        Tensor loss = loss_of(x, w);
        Tensor slope = ag::grad({loss}, {w}, {.create_graph = true})[0];
        slope.square().sum().backward();
        return loss.detach();
      },
      {.fullgraph = true});
  for (int i = 0; i < 3; ++i)
    run.log(step(row({1, 2, float(i), 1, 0.5, 1}).reshape({2, 3})), w.grad());
}

TENON_PROGRAM(AScanThatMultipliesByAWeightTwice, 2) {
  differentiate_twice(run, [](const Tensor& x, const Tensor& w) {
    auto step = [&](const Tensor& c, const Tensor& t) { return std::pair(c * w, t * 1.0); };
    return scan(step, row({1, 1, 1}), x).first.sum();
  });
}

TENON_PROGRAM(AScanWhoseOutputsReadTheCarry, 2) {
  differentiate_twice(run, [](const Tensor& x, const Tensor& w) {
    auto step = [&](const Tensor& c, const Tensor& t) { return std::pair(c * w + t, c * c * w); };
    auto [last, seen] = scan(step, w, x);
    return (last * seen).sum();
  });
}

// Only the slices need a gradient; the carry is made of them.
TENON_PROGRAM(AScanOverWhatIsMadeOfAWeight, 2) {
  differentiate_twice(run, [](const Tensor& x, const Tensor& w) {
    auto step = [](const Tensor& c, const Tensor& t) { return std::pair(c * t, c * t * t); };
    return scan(step, row({1, 1, 1}), x * w).second.sum();
  });
}

TENON_PROGRAM(AnAssociativeScanOfProducts, 2) {
  differentiate_twice(run, [](const Tensor& x, const Tensor& w) {
    return associative_scan([](const Tensor& a, const Tensor& b) { return a * b; }, x * w).sum();
  });
}

TENON_PROGRAM(AScanIsDifferentiatedThreeTimes, 2) {
  differentiate_twice(run, [](const Tensor& x, const Tensor& w) {
    auto step = [&](const Tensor& c, const Tensor& t) { return std::pair(c * w * t, c * w); };
    auto [last, seen] = scan(step, w, x);
    return ag::grad({last.sum() + seen.sum()}, {w}, {.create_graph = true})[0].sum();
  });
}

Tensor some_rows(const Tensor& x, const Tensor& w) {
  auto first = [&](const Tensor& t) { return (t * w).slice(0, 0, 1) * w; };
  auto others = [&](const Tensor& t) { return (t + w).slice(0, 0, 2) * w; };
  return cond(x.sum() > 0.0, first, others, x);
}

// The gradient of the result has a size that the data decide, and may lie in any way.
template <class F>
void train_on_rows(Run& run, F loss_of) {
  Tensor w = row({0.5, 2, -1}).requires_grad_();
  auto step = run.compile(
      [&](const Tensor& x) {
        w.set_grad({});
        Tensor rows = some_rows(x, w);
        loss_of(rows, w).backward();
        return rows.detach();
      },
      {.fullgraph = true});
  for (int i = 0; i < 4; ++i) {
    Tensor x = row({1, 2, 3, 4, 5, 6, 7, 8, 9}).reshape({3, 3}) * (i % 2 ? -0.5 : 0.25);
    run.log(step(x), w.grad());
  }
}

TENON_PROGRAM(BranchesOfDifferentSizesInAStep, 2) {
  train_on_rows(run, [](const Tensor& rows, const Tensor&) {
    return (rows * row({1, 2, 3})).sum();
  });
}

TENON_PROGRAM(BranchesOfDifferentSizesWithOneGradientForAll, 2) {
  train_on_rows(run, [](const Tensor& rows, const Tensor&) { return rows.sum(); });
}

TENON_PROGRAM(BranchesOfDifferentSizesThatAreTurned, 2) {
  train_on_rows(run, [](const Tensor& rows, const Tensor&) {
    Tensor turned = rows.t().contiguous();
    return (turned * turned).sum();
  });
}

TENON_PROGRAM(BranchesOfDifferentSizesTwice, 2) {
  train_on_rows(run, [](const Tensor& rows, const Tensor& w) {
    Tensor slope = ag::grad({(rows * row({1, 2, 3})).sum()}, {w}, {.create_graph = true})[0];
    return slope.square().sum();
  });
}

/// A product with a derivative of its own.
struct Product : ag::Function<Product> {
  static std::vector<Tensor> forward(ag::Context& c, const std::vector<Tensor>& in) {
    c.save_for_backward({in[0], in[1]});
    return {in[0] * in[1]};
  }
  static std::vector<Tensor> backward(ag::Context& c, std::vector<Tensor> grads) {
    auto saved = c.saved_tensors();
    return {grads[0] * saved[1], grads[0] * saved[0]};
  }
};

// What is not compiled gives a size that turns out to be that of the argument.
template <class F>
void with_a_part_outside(Run& run, F product) {
  Tensor w = row({0.5, 2, -1}).requires_grad_();
  auto outside = disable([](const Tensor& t) { return t * 2.0; });
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = outside(x), q = y * x, z = product(y, w);
    return z.square().mean() + q.sum();
  });
  for (int n : {2, 4, 8}) {
    w.set_grad({});
    f(ones({n, 3})).backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(AHookBehindAPartOutsideWithOtherSizes, 6) {
  with_a_part_outside(run, [](const Tensor& y, const Tensor& w) {
    Tensor z = y * w;
    ag::register_hook(z, [](const Tensor& g) { return g * 0.5; });
    return z;
  });
}

TENON_PROGRAM(AFunctionBehindAPartOutsideWithOtherSizes, 6) {
  with_a_part_outside(run, [](const Tensor& y, const Tensor& w) {
    return Product::apply({y * w, y})[0];
  });
}

TENON_PROGRAM(AFunctionOfAnArgumentAndAWeightInAPureBody, 1) {
  Tensor w = row({0.5, 2, -1}).requires_grad_();
  auto f = run.compile(
      [&](const Tensor& x) {
        return Product::apply({x, w})[0].sum();
      },
      {.fullgraph = true, .pure = true});
  for (int i = 0; i < 3; ++i) {
    w.set_grad({});
    f(row({1, 2, float(i)})).backward();
    run.log(w.grad());
  }
}

/// Gives a tensor that it has not made, which may be its argument.
struct Given : ag::Function<Given> {
  static inline Tensor captured;
  static std::vector<Tensor> forward(ag::Context&, const std::vector<Tensor>&) {
    return {captured};
  }
  static std::vector<Tensor> backward(ag::Context&, std::vector<Tensor> grads) {
    return {grads[0] * 3.0};
  }
};

TENON_PROGRAM(AFunctionThatGivesACapturedTensorWhichIsItsArgument, 2) {
  Given::captured = row({1, 2, 4}).requires_grad_();
  auto f = run.compile([](const Tensor& x) { return (Given::apply({x})[0] * 2.0).sum(); });
  for (int i = 0; i < 3; ++i) {
    Given::captured.set_grad({});
    f(Given::captured).backward();
    run.log(Given::captured.grad());
  }
  Given::captured = {};
}

template <class F>
void train_checkpointed(Run& run, F layer) {
  Tensor w = row({0.5, 2, -1}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    auto region = [&](const std::vector<Tensor>& in) {
      return std::vector<Tensor>{layer(in[0], w)};
    };
    return ag::checkpoint(region, {x})[0].sum();
  });
  for (int i = 0; i < 3; ++i) {
    w.set_grad({});
    Tensor x = row({1, 2, float(i)}).requires_grad_();
    f(x).backward();
    run.log(w.grad(), x.grad());
  }
}

TENON_PROGRAM(AGradientWithinACheckpoint, 4) {
  train_checkpointed(run, [](const Tensor& x, const Tensor& w) {
    Tensor v = x * w;
    return ag::grad({(v * v * v).sum()}, {v}, {.create_graph = true})[0];
  });
}

// The first gradient comes before the checkpoint has saved all, the second one after more of it.
TENON_PROGRAM(GradientsWithinACheckpointAndOperationsAfterThem, 6) {
  train_checkpointed(run, [](const Tensor& x, const Tensor& w) {
    Tensor v = x * w, s = v * v;
    Tensor g = ag::grad({(s * v).sum()}, {v}, {.create_graph = true})[0];
    Tensor h = ag::grad({(g * x).sum()}, {w}, {.retain_graph = true})[0];
    return (g + h) * w * s;
  });
}

// The weights of an inner loop that ends where the loss is small: the gradient of each is asked for when
// a look has ended the segment that made it and the loss.
template <class F>
void learn_to_learn(Run& run, bool create_graph, F loss_of) {
  Tensor w = row({1, -0.5, 2}).requires_grad_(), u = row({0.5, 1, -1}).requires_grad_();
  auto f = run.compile([&](const Tensor& x, float enough) {
    Tensor p = w, q = u;
    for (int k = 0; k < 4; ++k) {
      Tensor loss = loss_of(p, q, x);
      if (loss.item<float>() < enough) break;
      auto slopes = ag::grad({loss}, {p, q}, {.create_graph = create_graph});
      p = p - slopes[0] * 0.125;
      q = q - slopes[1] * 0.125;
    }
    return (p * x * q).sum();
  });
  for (int i = 0; i < 5; ++i) {
    for (const Tensor& t : {w, u}) t.set_grad({});
    f(row({1, 0.5f * float(i), -1}), i == 2 ? 100.0f : 0.001f).backward();
    run.log((w.grad() * 64).round(), (u.grad() * 64).round());
  }
}

TENON_PROGRAM(AnInnerLoopThatEndsWhereTheLossIsSmall, 24) {
  learn_to_learn(run, true, [](const Tensor& p, const Tensor& q, const Tensor& x) {
    return (p * x - 1).square().mean() + (q * x).square().mean();
  });
}

TENON_PROGRAM(AnInnerLoopOfTheFirstOrder, 24) {
  learn_to_learn(run, false, [](const Tensor& p, const Tensor& q, const Tensor& x) {
    return ((p * x).tanh() * q - 1).square().mean();
  });
}

TENON_PROGRAM(AnInnerLoopThatWritesInPlace, 24) {
  learn_to_learn(run, true, [](const Tensor& p, const Tensor& q, const Tensor& x) {
    Tensor h = p * x;
    h.mul_(q);
    return h.square().mean();
  });
}

}  // namespace
}  // namespace tenon::programs
