// Leaves and views of them that a body keeps: they are the tensors of the program.
#include "program.h"

namespace tenon::programs {
namespace {

void log_step(Run& run, const Tensor& kept, const Tensor& w) {
  optim::SGD sgd({kept}, {.lr = 0.5});
  sgd.zero_grad();
  (w * 3.0).sum().backward();
  sgd.step();
  run.log(w, kept.grad(), kept.is_same(w));
}

// An operation that has nothing to do gives its argument back.
TENON_PROGRAM(AWeightIsKeptAsItIsGivenBack, 8) {
  Tensor w = halves({2}, 1).requires_grad_(), flat;
  auto f = run.compile([&](const Tensor& x) {
    flat = w.contiguous();
    return (x * w).sum();
  });
  for (int i = 0; i < 3; ++i) {
    run.log(f(ones({2})));
    log_step(run, flat, w);
  }
}

TENON_PROGRAM(AnArgumentIsKeptAsItIsGivenBack, 8) {
  Tensor kept, other;
  auto f = run.compile([&](const Tensor& x) {
    kept = x.to(x.dtype());
    Tensor y = kept * 1.0;
    other = y.contiguous();
    return y.sum();
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = halves({3}, i).requires_grad_();
    f(x);
    (kept * 2.0 + other).sum().backward();
    run.log(x.grad(), kept.is_same(x), kept.is_leaf(), other.is_leaf());
  }
}

TENON_PROGRAM(AWeightIsKeptByABodyThatThrows, 8) {
  Tensor w = halves({2}, 1).requires_grad_(), flat;
  auto f = run.compile([&](const Tensor& x) {
    flat = w.contiguous();
    Tensor y = x * flat;
    if (x.numel() == 2) throw 3;
    return y;
  });
  for (int i = 0; i < 3; ++i) {
    try {
      f(ones({2}));
    } catch (int) {
    }
    log_step(run, flat, w);
  }
}

// Over a graph break, in place or not.
TENON_PROGRAM(AnArgumentIsKeptOverABreak, 12) {
  Tensor kept, turned;
  auto f = run.compile([&](Tensor x) {
    Tensor y = x * 2.0;
    double total = y.sum().item<float>().value();
    y.t_();
    x.mul_(0.5);
    double after = x.max().item<float>().value();
    kept = x.contiguous();
    turned = y;
    return x * (total + after);
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = halves({2, 3}, i);
    run.log(f(x), x, kept.is_same(x), turned);
    kept.add_(1.0);
    run.log(x);
  }
}

// A view that is older than a write to its base asks that what it needs; a later one does not.
TENON_PROGRAM(ABaseNeedsAGradientAfterItWasWritten, 12) {
  auto f = run.compile([](Tensor x) {
    Tensor older = x.select(0, 0);
    x.mul_(0.5);
    Tensor later = x.select(0, 1);
    x.requires_grad_();
    return std::tuple(older, later, older * 2.0 + later * x);
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = halves({2}, i + 1);
    auto [older, later, z] = f(x);
    z.sum().backward();
    run.log(older, later, older.requires_grad(), later.requires_grad(), x.grad());
  }
}

TENON_PROGRAM(AWeightNeedsAGradientAfterItWasWritten, 12) {
  Tensor w;
  auto f = run.compile([&](const Tensor& x) {
    Tensor older = w.slice(0, 0, 1), later;
    w.mul_(0.5);
    later = w.slice(0, 1, 2);
    bool before = older.requires_grad();
    w.requires_grad_();
    bool needs = older.requires_grad();
    return std::tuple(older * x * w + later, before, needs, later.requires_grad());
  });
  for (int i = 0; i < 4; ++i) {
    w = halves({2}, i + 1);
    auto [z, before, needs, later_needs] = f(ones({2}));
    z.sum().backward();
    run.log(z, before, needs, later_needs, w.grad());
  }
}

// A view of a leaf is not written, also where the leaf has become one since.
TENON_PROGRAM(ABaseNeedsAGradientBeforeItsViewIsWritten, 12) {
  Tensor kept = zeros({2});
  int after = 0;
  auto f = run.compile([&](Tensor x, const Tensor& z) {
    Tensor y = x.unsqueeze(0);
    x.requires_grad_();
    y.select(0, 0).copy_(z * 0.5);
    kept = x * 2.0;
    ++after;
    return y.sum();
  });
  for (int i = 0; i < 3; ++i) {
    Tensor x = halves({2}, i);
    run.log_error([&] { f(x, ones({2})); });
    run.log(x, kept, after);
  }
}

TENON_PROGRAM(ABaseNeedsAGradientAfterTheCall, 8) {
  Tensor kept;
  auto f = run.compile([&](Tensor x) {
    kept = x.slice(0, 0, 1);
    Tensor y = x * 2.0, of_y = y.slice(0, 1, 2);
    y.mul_(0.5);
    x.mul_(0.5);
    return std::pair(y, of_y);
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = halves({2}, i + 1);
    auto [y, of_y] = f(x);
    x.requires_grad_();
    y.requires_grad_();
    run.log(kept.requires_grad(), of_y.requires_grad());
    (kept * 3.0 + x + of_y * y).sum().backward();
    run.log(x.grad(), y.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
