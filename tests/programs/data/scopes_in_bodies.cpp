// Operations in a NoCompile of a body run as they are, between two segments; later calls follow the
// body all the same.
#include "program.h"

#include <tenon/compiler.h>

namespace tenon::programs {
namespace {

template <class F>
void log_follows(Run& run, const F& f, int64_t n_recorded_breaks) {
  run.log(run.is_plain() || (f.is_followed() && f.stats().graph_breaks == n_recorded_breaks));
}

TENON_PROGRAM(AnEmptyScopeCutsTheBody, 7) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x * 2.0;
    { NoCompile here; }
    return y + 1.0;
  });
  for (int i = 0; i < 6; ++i) run.log(f(row({float(i), 2})));
  log_follows(run, f, 1);
}

TENON_PROGRAM(OperationsInAScope, 7) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x * 2.0, z;
    {
      NoCompile here;
      z = y.sin() + x;
    }
    return z * y;
  });
  for (int i = 0; i < 6; ++i) run.log(f(halves({2 + i % 2, 3}, i)));
  log_follows(run, f, 2);  // one for each kind of size
}

TENON_PROGRAM(GradientsGoThroughAScope, 12) {
  Tensor w = (halves({3}, 1) + 0.25).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * w, z;
    {
      NoCompile here;
      z = (y * w).sin();
      z = z.select(0, 0) + y;
    }
    return (z * y).sum();
  });
  for (int i = 0; i < 6; ++i) {
    w.set_grad({});
    Tensor loss = f(halves({2 + i % 3, 3}, i));
    loss.backward();
    run.log(loss);
    run.log(w.grad());
    NoGradGuard off;
    w.sub_(w.grad() * 0.0625);
  }
}

TENON_PROGRAM(AScopeWrites, 12) {
  Tensor total = zeros({3});
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x + total;
    {
      NoCompile here;
      total.add_(x);
      y.select(0, 0).mul_(2.0);
    }
    return y * total;
  });
  for (int i = 0; i < 6; ++i) {
    run.log(f(row({float(i), 1, 2})));
    run.log(total);
  }
}

TENON_PROGRAM(AViewMadeInAScopeIsWrittenBehindIt, 6) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x * 1.0, row_of_y;
    {
      NoCompile here;
      row_of_y = y.select(0, 1);
    }
    row_of_y.mul_(3.0);
    return y + row_of_y;
  });
  for (int i = 0; i < 6; ++i) run.log(f(halves({2, 3}, i)));
}

TENON_PROGRAM(AScopeMeetsACapturedTensorFirst, 9) {
  Tensor a = row({1, 2}), b = row({3, 4});
  const Tensor* chosen = &a;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y;
    {
      NoCompile here;
      y = x * *chosen;
    }
    return y + *chosen;
  });
  for (int i = 0; i < 9; ++i) {
    chosen = i % 3 ? &a : &b;
    if (i == 5) a = row({7, 8});
    run.log(f(row({float(i), 1})));
  }
}

TENON_PROGRAM(ScopesInALoop, 7) {
  auto f = run.compile([](const Tensor& x, int64_t turns) {
    Tensor y = x;
    for (int64_t i = 0; i < turns; ++i) {
      y = y * 0.5;
      NoCompile here;
      y = y + double(i);
    }
    return y - 1.0;
  });
  for (int i = 0; i < 6; ++i) run.log(f(row({float(i), 2}), 3));
  log_follows(run, f, 3);
}

TENON_PROGRAM(ABodyGoesThroughTheScopeOrNot, 12) {
  auto f = run.compile([](const Tensor& x, bool through) {
    Tensor y = x * 2.0;
    if (through) {
      NoCompile here;
      y = y.exp();
    }
    return y + x;
  });
  for (int i = 0; i < 12; ++i) run.log(f(row({float(i % 4), 2}), i % 3 == 1));
}

// The operation behind the scope is one that the scope does, too, now and then.
TENON_PROGRAM(AScopeDoesWhatComesBehindIt, 12) {
  auto f = run.compile([](const Tensor& x, bool twice) {
    Tensor y = x * 2.0, z;
    {
      NoCompile here;
      z = twice ? y.sin() : y;
    }
    return y.sin() + z;
  });
  for (int i = 0; i < 12; ++i) run.log(f(row({float(i), 2}), i % 4 == 3));
}

// The program reads what the scope has made at once.
TENON_PROGRAM(NumbersOfAScope, 8) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x * 2.0;
    double most = 0;
    {
      NoCompile here;
      most = double(y.max().item<float>().value());
    }
    return most > 6.0 ? y - most : y + most;
  });
  for (int i = 0; i < 8; ++i) run.log(f(row({float(i % 5), 1})));
}

TENON_PROGRAM(WhatAScopeMakesIsKept, 12) {
  std::vector<Tensor> kept;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x + 1.0;
    NoCompile here;
    kept.push_back(y * 2.0);
    return kept.back() - x;
  });
  for (int i = 0; i < 6; ++i) {
    run.log(f(row({float(i), 3})));
    run.log(kept[static_cast<size_t>(i)]);
  }
}

TENON_PROGRAM(AnErrorLeavesAScope, 10) {
  auto f = run.compile([](const Tensor& x, int64_t index) {
    Tensor y = x * 2.0;
    NoCompile here;
    return y.select(0, index) + 1.0;
  });
  for (int i = 0; i < 10; ++i) {
    try {
      run.log(f(row({float(i), 3}), i % 3));
    } catch (const Error&) {
      run.log("refused");
    }
  }
}

TENON_PROGRAM(AScopeWithoutGradients, 8) {
  Tensor w = (halves({3}, 1) + 0.25).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * w, scale;
    {
      NoGradGuard off;
      NoCompile here;
      scale = y.abs().max();
    }
    return y / scale;
  });
  for (int i = 0; i < 4; ++i) {
    w.set_grad({});
    Tensor y = f(halves({2, 3}, i) + 0.25);
    y.square().sum().backward();
    run.log(y);
    run.log(w.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
