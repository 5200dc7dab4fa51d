// In-place operations that lay a tensor of the body out anew, among others and around breaks.
#include "program.h"

namespace tenon::programs {
namespace {

Tensor counted(int64_t rows, int64_t columns) {
  return (arange(rows * columns, Dtype::f32) * 0.125).reshape({rows, columns});
}

TENON_PROGRAM(AMaskGetsADimension, 6) {
  auto f = run.compile([](const Tensor& x) {
    Tensor mask = x.gt(1).to(Dtype::f32);
    mask.unsqueeze_(0);
    Tensor scores = x.unsqueeze(0) * mask;
    scores.squeeze_(0).t_();
    return scores;
  });
  for (int64_t rows : {3, 3, 4, 5}) run.log(f(counted(rows, 4)));
  run.log(f.is_followed());
}

TENON_PROGRAM(ATensorIsTurnedBeforeALookAndReadBehindIt, 8) {
  int calls = 0;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * 2, z = x + 1;
    y.transpose_(0, 1);
    Tensor half = y.sum().item<float>() > 1 ? y * 0.5 : y;
    if (calls % 2) z.unsqueeze_(0);
    return std::vector<Tensor>{half, y, z * 3};
  });
  for (int64_t columns : {2, 3, 3, 4, 3, 1}) {
    run.log(f(counted(3, columns)));
    ++calls;
  }
}

TENON_PROGRAM(ATensorIsTurnedInEachTurn, 8) {
  auto f = run.compile([](const Tensor& x, int64_t turns) {
    Tensor y = x * 1;
    for (int64_t i = 0; i < turns; ++i) {
      y.t_();
      y.add_(1);
      if (y.sum().item<float>() > 1e5f) break;
    }
    return y;
  });
  for (int64_t turns : {1, 2, 3, 2, 1, 4}) run.log(f(counted(2, 3), turns));
}

TENON_PROGRAM(ALeafTurnsAndLearns, 6) {
  auto f = run.compile([](const Tensor& x, const Tensor& w) {
    Tensor h = x * w;
    h.t_();
    h.mul_(2);
    h.unsqueeze_(1);
    Tensor loss = h.square().sum();
    loss.backward();
    return std::vector<Tensor>{h, loss};
  });
  for (int i = 0; i < 4; ++i) {
    Tensor w = (counted(2, 3) + i).requires_grad_();
    run.log(f(counted(2, 3), w), w.grad());
  }
}

TENON_PROGRAM(ATurnedTensorIsKept, 6) {
  Tensor kept;
  auto f = run.compile([&](const Tensor& x) {
    Tensor before = kept.defined() ? kept + 1 : x;
    kept = x * 3;
    kept.unsqueeze_(-1);
    return before * 2;
  });
  for (int64_t rows : {2, 2, 3, 3, 2}) run.log(f(counted(rows, 2)), kept);
}

}  // namespace
}  // namespace tenon::programs
