// Ops of the program that write an argument: what their derivative does not tell of is refused, and
// what it tells of is differentiated.
#include "program.h"

#include <tenon/allow_in_graph.h>
#include <tenon/library.h>

namespace tenon::programs {
namespace {

TENON_LIBRARY(writes_without_a_rule, lib) {
  lib.op("out(Tensor x, Tensor(a!) o) -> ()").kernel([](const Tensor& x, const Tensor& o) {
    o.copy_(x * 2);
  });
  lib.op("mixed(Tensor a, Tensor(b!) b) -> Tensor")
      .like(0)
      .kernel([](const Tensor& a, const Tensor& b) {
        b.copy_(a * 3);
        return a * 1;
      });
  lib.op("raise_(Tensor(a!) x) -> Tensor(a!)")
      .like(0)
      .kernel([](const Tensor& x) {
        x.add_(1);
        return x;
      })
      .vjp([](const VjpCtx& c, const Tensor& g) { return c.grads(g); });
  lib.op("square_into(Tensor by, Tensor(a!) x) -> Tensor(a!)")
      .like(1)
      .kernel([](const Tensor& by, const Tensor& x) {
        x.mul_(x).mul_(by);
        return x;
      })
      .vjp([](const VjpCtx& c, const Tensor& g) {
        auto [by, x] = c.inputs<2>();
        return c.grads(g * x * x, g * by * x * 2);
      });
  lib.op("scale_and_add(Tensor(a!) x, Tensor y) -> (Tensor(a!), Tensor)")
      .like(0)
      .kernel([](const Tensor& x, const Tensor& y) {
        Tensor sum = x + y;
        x.mul_(y);
        return std::tuple(x, sum);
      })
      .vjp([](const VjpCtx& c, const Tensor& g, const Tensor& of_sum) {
        auto [x, y] = c.inputs<2>();
        return c.grads(g * y + of_sum, g * x + of_sum);
      });
  lib.op("counted(Tensor x, Tensor(a!) total) -> Tensor")
      .like(0)
      .kernel([](const Tensor& x, const Tensor& total) {
        total.add_(x.sum());
        return x * 2;
      })
      .vjp([](const VjpCtx& c, const Tensor& g) { return c.grads(g * 2, Tensor()); });
}
using Binary = Op<Tensor(const Tensor&, const Tensor&)>;
const Op<void(const Tensor&, const Tensor&)> out{"writes_without_a_rule::out"};
const Binary mixed{"writes_without_a_rule::mixed"};
const Op<Tensor(const Tensor&)> raise{"writes_without_a_rule::raise_"};
const Binary square_into{"writes_without_a_rule::square_into"};
const Op<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&)> scale_and_add{
    "writes_without_a_rule::scale_and_add"};
const Binary counted{"writes_without_a_rule::counted"};

template <class F>
void log_gradient(Run& run, F body) {
  auto f = run.compile(body);
  for (int i = 0; i < 3; ++i) {
    Tensor x = halves({3}, i).requires_grad_();
    run.log_error([&] {
      Tensor loss = f(x);
      run.log(loss.detach(), loss.requires_grad());
      loss.backward();
    });
    run.log(x.grad().defined() ? x.grad() : zeros({1}));
  }
}

TENON_PROGRAM(WhatAnOpWritesHasNoDerivative, 3) {
  log_gradient(run, [](const Tensor& x) {
    Tensor c = x * 1;
    out(x, c);
    return (c * x).sum();
  });
  log_gradient(run, [](const Tensor& x) {
    Tensor c = empty({3});
    out(x, c);
    return c.sum();
  });
  log_gradient(run, [](const Tensor& x) {
    Tensor c = zeros({2, 3});
    mixed(x, c.select(0, 1));
    return (c * x).sum();
  });
}

TENON_PROGRAM(WhatAnOpWritesBesidesIsNotUsed, 1) {
  log_gradient(run, [](const Tensor& x) {
    Tensor c = empty({3});
    out(x, c);
    return (c.detach() * x).sum();
  });
}

TENON_PROGRAM(AnOpInPlaceHasARule, 4) {
  log_gradient(run, [](const Tensor& x) {
    Tensor c = x * 2;
    return (raise(c) * x).sum();
  });
  log_gradient(run, [](const Tensor& x) {
    Tensor c = x * 2;
    raise(c.select(0, 0));
    return (c * c).sum();
  });
  log_gradient(run, [](const Tensor& x) {
    Tensor c = x * 2;
    square_into(x, c);
    return (c * x).sum();
  });
  log_gradient(run, [](const Tensor& x) {
    Tensor c = x * 2;
    square_into(x.select(0, 0), c.select(0, 1));
    return (c * x).sum();
  });
}

TENON_PROGRAM(AnOpInPlaceGivesMoreBesides, 3) {
  auto in_place = [](const Tensor& x) {
    Tensor c = x * 2;
    auto [part, sum] = scale_and_add(c.slice(0, 0, 2), x.slice(0, 1, 3));
    return (part * sum).sum() + (c * x).sum();
  };
  auto of_parts = [](const Tensor& x) {
    Tensor c = x * 2, head = c.slice(0, 0, 2), y = x.slice(0, 1, 3), part = head * y;
    return (part * (head + y)).sum() + (cat({part, c.slice(0, 2, 3)}) * x).sum();
  };
  auto f = run.compile(in_place);
  for (int i = 0; i < 3; ++i) {
    Tensor x = halves({3}, i).requires_grad_(), same = halves({3}, i).requires_grad_();
    f(x).backward();
    of_parts(same).backward();
    run.log(x.grad(), (x.grad() - same.grad()).abs().sum());
  }
}

TENON_PROGRAM(StatisticsAreWrittenBesides, 1) {
  Tensor total = zeros({}), w = halves({3}, 1).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return counted(x * w, total).sum(); });
  for (int i = 0; i < 3; ++i) {
    f(halves({3}, i)).backward();
    run.log(w.grad(), total, total.requires_grad());
  }
}

TENON_PROGRAM(OneOfTwoResultsNeedsNoGradient, 1) {
  static const auto two = compiler::allow_in_graph(
      "writes_without_a_rule::two",
      [](const Tensor& x, const Tensor& y) { return std::tuple<Tensor, Tensor>(x + y, x * 2.0); });
  auto f = run.compile([](const Tensor& x, const Tensor& y) { return two(x, y); });
  Tensor y = halves({3}).requires_grad_();
  auto [sum, twice] = f(halves({3}, 1), y);
  run.log(sum.requires_grad(), twice.requires_grad());
  sum.sum().backward();
  run.log(y.grad());
}

TENON_PROGRAM(ADisabledFunctionEndsTheNeed, 3) {
  auto end = compiler::disable([](const Tensor& x) { x.requires_grad_(false); });
  auto f = run.compile([&](const Tensor& x) {
    end(x);
    return x * 2.0;
  });
  Tensor x = halves({3});
  for (int i = 0; i < 3; ++i) run.log(f(x.requires_grad_()).requires_grad());
}

}  // namespace
}  // namespace tenon::programs
