// Ops of the program whose definitions call a compiled callable: it is the plain function there.
#include "program.h"

#include <tenon/allow_in_graph.h>
#include <tenon/library.h>

namespace tenon::programs {
namespace {

using Unary = std::function<Tensor(const Tensor&)>;

/// What the ops call: the callable of the run.
Unary& inner() {
  static Unary callable;
  return callable;
}
void use_inner(Run& run) {
  auto f = run.compile([](const Tensor& x) { return x * 3 + 1; });
  inner() = [f](const Tensor& x) { return f(x); };
}

TENON_LIBRARY(calling, lib) {
  lib.op("parts(Tensor x) -> Tensor").decomposition([](const Tensor& x) {
    return inner()(x).relu();
  });
  lib.op("shape(Tensor x) -> Tensor")
      .meta([](const Tensor& x) { return inner()(x.sum(0)); })
      .kernel([](const Tensor& x) { return x.sum(0) * 2; });
  lib.op("gradient(Tensor x) -> Tensor")
      .like(0)
      .kernel([](const Tensor& x) { return x * 2; })
      .vjp([](const VjpCtx& c, const Tensor& g) { return c.grads(inner()(g) * c.input(0)); });
  lib.op("within(Tensor x) -> Tensor").decomposition([](const Tensor& x) {
    const Op<Tensor(const Tensor&)> parts{"calling::parts"};
    return inner()(parts(x)) - parts(inner()(x));
  });
}
const Op<Tensor(const Tensor&)> parts{"calling::parts"}, shape{"calling::shape"},
    gradient{"calling::gradient"}, within{"calling::within"};

// The callable is called before, and in between.
template <class F>
void run_calls(Run& run, F body) {
  use_inner(run);
  auto f = run.compile(body);
  for (int64_t n : {3, 3, 4, 5}) {
    run.log(f(halves({n}, 1)));
    run.log(inner()(halves({n}, 2)));
  }
  inner() = nullptr;
}

TENON_PROGRAM(ADecompositionCallsACallable, 12) {
  run_calls(run, [](const Tensor& x) { return parts(x) + 1; });
}

TENON_PROGRAM(DecompositionsWithinDecompositions, 12) {
  run_calls(run, [](const Tensor& x) { return within(x * 2) + inner()(x); });
}

TENON_PROGRAM(AMetaFunctionCallsACallable, 12) {
  run_calls(run, [](const Tensor& x) { return shape(x.reshape({-1, 1}) + x) * 2; });
}

TENON_PROGRAM(AFunctionOfTheGraphCallsACallable, 12) {
  static const auto function =
      compiler::allow_in_graph("calling::function", [](const Tensor& x) { return inner()(x) * 2; });
  run_calls(run, [](const Tensor& x) { return function(x + 1) - x; });
}

TENON_PROGRAM(AGradientCallsACallable, 16) {
  use_inner(run);
  Tensor w = halves({4}, 1).requires_grad_();
  auto f = run.compile([&](const Tensor& x) { return (gradient(w * x) + parts(w)).sum(); });
  for (int i = 1; i < 4; ++i) {
    f(halves({4}, i)).backward();
    run.log(w.grad());
  }
  inner() = nullptr;
}

}  // namespace
}  // namespace tenon::programs
