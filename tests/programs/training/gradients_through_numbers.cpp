// Gradients of bodies that take numbers of the data for symbols: the backward needs what the forward
// has found out.
#include "program.h"

namespace tenon::programs {
namespace {

const Options takes_numbers{.options = {{"dynamo.capture_scalar_outputs", "true"}}};

Tensor weights() { return row({0.5, -0.25}).requires_grad_(); }

// Logs what f gives, and the gradient of `w`.
template <class F>
void log_gradients(Run& run, const F& f, const Tensor& w, int calls = 3) {
  for (int i = 0; i < calls; ++i) {
    w.set_grad({});
    Tensor y = f(row({1, float(i)}));
    y.sum().backward();
    run.log(y, w.grad());
  }
}

TENON_PROGRAM(ARealNumber, 1) {
  Tensor w = weights();
  auto f = run.compile(
      [&](const Tensor& x) {
        Tensor y = x * w;
        return y * y.sum().item<float>().sym();
      },
      takes_numbers);
  log_gradients(run, f, w);
}

TENON_PROGRAM(SeveralKindsOfNumbers, 1) {
  Tensor w = weights();
  auto f = run.compile(
      [&](const Tensor& x) {
        Tensor y = x * w;
        SymFloat scale = y.sum().item<double>();
        SymInt count = (x > 0.5).sum().item<int64_t>();
        return y * scale + (y * count).square() * (scale * 2.0);
      },
      takes_numbers);
  log_gradients(run, f, w);
}

TENON_PROGRAM(ANumberOfAnotherSegment, 2) {
  Tensor w = weights();
  auto f = run.compile(
      [&](const Tensor& x) {
        Tensor y = x * w;
        SymFloat scale = y.square().sum().item<double>();
        graph_break();
        return (y * scale).square();
      },
      takes_numbers);
  log_gradients(run, f, w);
}

TENON_PROGRAM(AClippedNorm, 1) {
  Tensor w = weights();
  auto f = run.compile(
      [&](const Tensor& x) {
        Tensor y = x * w + 1.0;
        Tensor scale = y.detach().square().sum();
        return y.square() * Number(scale.item<float>()) / Number((scale + 1.0).item<float>());
      },
      takes_numbers);
  log_gradients(run, f, w);
}

TENON_PROGRAM(ANumberInOneGraph, 3) {
  Tensor w = weights();
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * w;
    return y.square() * y.sum().item<double>().sym();
  });
  log_gradients(run, f, w);
}
TENON_PROGRAM_IN_ONE_GRAPH(ANumberInOneGraph, 1);

}  // namespace
}  // namespace tenon::programs
