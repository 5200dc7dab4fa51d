// A second backward pass through one result of a piece of a body, of which another result is held.
#include "program.h"

namespace tenon::programs {
namespace {

template <class F>
void pass_twice(Run& run, F made_of, bool retains) {
  Tensor w = row({1, 2, -1}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor held = made_of(w) * x, loss = held.sum();
    loss.backward({}, retains);
    loss.backward();
    return loss.detach();
  });
  for (int i = 0; i < 3; ++i) {
    w.set_grad({});
    run.log_error([&] { run.log(f(row({1, 2, float(i)}))); });
    run.log(w.grad());
  }
}

TENON_PROGRAM(ATapeThatIsUsedUp, 4) {
  pass_twice(
      run, [](const Tensor& w) { return w * w; }, false);
}

TENON_PROGRAM(ATapeThatIsRetained, 4) {
  pass_twice(
      run, [](const Tensor& w) { return w * w; }, true);
}

// Of sums and of products with a number nothing is kept, so nothing is used up.
TENON_PROGRAM(ATapeThatKeepsNothing, 4) {
  Tensor w = row({1, 2, -1}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor held = w * w * x, loss = (w * 3.0 + x).sum();
    loss.backward();
    loss.backward();
    held.sum().backward();
    return loss.detach();
  });
  for (int i = 0; i < 3; ++i) {
    w.set_grad({});
    run.log(f(row({1, 2, float(i)})), w.grad());
  }
}

// Each of two results gets one pass, and what is asked for in between is kept.
TENON_PROGRAM(OnePassForEachOfTwoResults, 6) {
  Tensor w = row({1, 2, -1}).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor a = (w * w * x).sum(), b = (w * x * w * w).sum();
    Tensor slope = autograd::grad({a}, {w}, {.retain_graph = true})[0];
    a.backward();
    b.backward();
    return slope;
  });
  for (int i = 0; i < 3; ++i) {
    w.set_grad({});
    run.log(f(row({1, 2, float(i)})), w.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
