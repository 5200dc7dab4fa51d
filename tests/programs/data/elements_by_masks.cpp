// `x[mask]`, whose size the data decide.
#include "program.h"

namespace tenon::programs {
namespace {

Tensor wave(int64_t n) { return ((arange(n, Dtype::f32) * 5).remainder(7) - 3) * 0.5; }

TENON_PROGRAM(OneElementMeetsAll, 3) {
  auto f =
      run.compile([](const Tensor& x, const Tensor& m) { return x[m] * x + x[m].expand({4}); });
  for (int64_t i : {0, 3, 1, 2}) run.log(f(wave(4), arange(4) == i));
}

TENON_PROGRAM(SumsOfWhatIsPositive, 5) {
  auto f = run.compile([](const Tensor& x) {
    Tensor positive = x[x > 0];
    return positive.sum() * 0.5 + static_cast<double>(positive.size(0));
  });
  for (int64_t n : {8, 8, 12, 9, 20, 8}) run.log(f(wave(n)));
}

TENON_PROGRAM(MasksThatDoNotFit, 6) {
  auto f = run.compile([](const Tensor& x, const Tensor& m) { return x[m] + x.narrow(0, 0, 2); });
  for (int64_t least : {2, 0, 2, 3, 1})
    run.log_error([&] { run.log(f(wave(4), arange(4) >= least)); });
}

TENON_PROGRAM(RowsOfAWeight, 6) {
  Tensor w = wave(12).reshape({4, 3}).requires_grad_();
  auto f = run.compile([&](const Tensor& m) { return (w[m] * w[m]).sum() + w.sum(); });
  for (int64_t least : {2, 0, 3, 4, 1}) {
    w.set_grad({});
    Tensor loss = f(arange(4) >= least);
    loss.backward();
    run.log(loss, w.grad());
  }
}

// No mask: positions.
TENON_PROGRAM(PositionsStayInTheGraph, 2) {
  auto f = run.compile([](const Tensor& x, const Tensor& at) { return x[at] * 2; });
  for (int64_t n : {2, 2, 3, 3}) run.log(f(wave(6), arange(n)));
}

}  // namespace
}  // namespace tenon::programs
