// Ops of the program that keep what they are given: it stays what it was, whoever computed it.
#include "program.h"

#include <tenon/library.h>

#include <stdexcept>

namespace tenon::programs {
namespace {

std::vector<Tensor>& kept() {
  static std::vector<Tensor> tensors;
  return tensors;
}

// What is in memory is overwritten once more before the tensors are looked at.
void log_kept(Run& run) {
  std::vector<Tensor> others;
  for (int i = 0; i < 8; ++i) others.push_back(full({64, 64}, 77.0));
  for (const Tensor& t : kept()) run.log(t.sum(), t.flatten()[0], t.flatten()[-1]);
  kept().clear();
}

TENON_LIBRARY(keeping, lib) {
  lib.op("whole(Tensor x) -> ()").kernel([](const Tensor& x) { kept().push_back(x); });
  lib.op("view(Tensor x) -> ()").kernel([](const Tensor& x) {
    kept().push_back(x.slice(0, 1, 3).t().detach());
  });
  lib.op("list(Tensor[] xs) -> ()").kernel([](TensorList xs) {
    for (const Tensor& x : xs) kept().push_back(x);
  });
  lib.op("and_double(Tensor x) -> Tensor")
      .like(0)
      .tags(TN_TAG_RANDOM)
      .kernel([](const Tensor& x) {
        kept().push_back(x);
        return x * 2;
      })
      .vjp([](const VjpCtx& c, const Tensor& g) {
        const Op<Tensor(const Tensor&)> again{"keeping::and_double"};
        return c.grads(again(g * 0.5) + g);
      });
  lib.op("before_it_throws(Tensor x) -> ()").kernel([](const Tensor& x) {
    kept().push_back(x);
    throw std::runtime_error("kept it");
  });
}
const Op<void(const Tensor&)> keep{"keeping::whole"}, keep_view{"keeping::view"},
    keep_and_throw{"keeping::before_it_throws"};
const Op<void(const std::vector<Tensor>&)> keep_list{"keeping::list"};
const Op<Tensor(const Tensor&)> keep_and_double{"keeping::and_double"};

TENON_PROGRAM(AnOpKeepsATensor, 2) {
  auto f = run.compile([](const Tensor& x) {
    Tensor a = x * 2;
    keep(a);
    return ((a.exp() + 1).sin() * a.cos()).sum();
  });
  for (int i = 1; i < 5; ++i) run.log(f(full({64, 64}, 0.5 * i)));
  log_kept(run);
}

TENON_PROGRAM(ViewsAreKept, 2) {
  auto f = run.compile([](const Tensor& x) {
    Tensor a = x * 2, b = (a + 1).t();
    keep_view(a);
    keep_view(b);
    keep(b.slice(1, 0, 2));
    return (a + b).relu().sum(0) * 0.5;
  });
  for (int i = 1; i < 4; ++i) run.log(f(halves({5, 5}, i)));
  log_kept(run);
}

TENON_PROGRAM(ListsAreKept, 2) {
  auto f = run.compile([](const Tensor& x) {
    Tensor a = x * 2, b = a + 1, c = (a * b).relu();
    keep_list({a, b, a, c.slice(0, 1, 3), x});
    Tensor d = (c - a) * 2;
    keep_list({d, b});
    return (d + b * 3) * (c + a);
  });
  for (int i = 1; i < 4; ++i) run.log(f(halves({4, 3}, i)));
  log_kept(run);
}

TENON_PROGRAM(WhatIsWrittenLaterWasKeptAsItWas, 2) {
  auto f = run.compile([](const Tensor& x) {
    Tensor a = x * 2;
    keep(a.clone());
    a.slice(0, 0, 2).add_(1);
    keep(a.clone());
    Tensor b = a.index_copy(0, arange(1), ones({1, 3}));
    keep(b);
    return cat({a, b}).index_add(0, arange(2), x.slice(0, 0, 2)) * 2;
  });
  for (int i = 1; i < 4; ++i) run.log(f(halves({4, 3}, i)));
  log_kept(run);
}

TENON_PROGRAM(TheBackwardKeepsToo, 8) {
  Tensor w = halves({6}, 1).requires_grad_();
  auto f = run.compile(
      [&](const Tensor& x) { return (keep_and_double((x * w).relu()) * (x + 1)).sum(); });
  for (int i = 1; i < 4; ++i) {
    f(halves({6}, i)).backward();
    run.log(w.grad());
  }
  log_kept(run);
}

TENON_PROGRAM(AnOpKeepsATensorAndThrows, 4) {
  auto f = run.compile([](const Tensor& x, bool throws) {
    Tensor a = x * 2;
    if (throws) keep_and_throw(a);
    return (a + 1) * a;
  });
  for (int i = 1; i < 4; ++i) {
    try {
      f(halves({40}, i), true);
    } catch (const std::exception&) {
      run.log("threw");
    }
    run.log(f(halves({40}, i), false));
  }
  log_kept(run);
}

// The program may write what an op has kept: what was made of parameters for later calls is another
// tensor.
TENON_PROGRAM(WhatDependsOnParametersIsKept, 2) {
  nn::Linear layer(3, 3);
  NoGradGuard off;
  layer.weight.copy_(halves({3, 3}, 1));
  layer.bias.copy_(halves({3}));
  auto f = run.compile([&](const Tensor& x) {
    Tensor doubled = layer.weight.t() * 2 + layer.bias;
    keep(doubled);
    return x.mm(doubled.relu()) + layer(x);
  });
  for (int i = 0; i < 6; ++i) {
    run.log(f(halves({2, 3}, i)));
    if (i % 2 == 0) kept().back().fill_(100 * i);
    if (i == 3) layer.weight.add_(1);
  }
  log_kept(run);
}

TENON_PROGRAM(SizesChangeWhileTensorsAreKept, 4) {
  auto f = run.compile([](const Tensor& x) {
    Tensor a = x * 2;
    keep(a);
    Tensor b = (a.cumsum(0) + 1).relu();
    keep_view(b.reshape({-1, 1}));
    return (b * a).sort().values;
  });
  for (int64_t n : {4, 6, 5, 9, 4, 400}) run.log(f(halves({n}, 1)).sum());
  log_kept(run);
}

}  // namespace
}  // namespace tenon::programs
