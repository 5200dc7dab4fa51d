// Bodies that write arguments whose elements are one in memory, or share memory with others.
#include "program.h"

namespace tenon::programs {
namespace {

TENON_PROGRAM(ARowOfAnExpandedArgument, 4) {
  auto f = run.compile([](const Tensor& x) {
    x[0].add_(5);
    return x * 2;
  });
  for (int i = 0; i < 6; ++i) {
    Tensor base = row({1, float(i)});
    run.log(f(base.expand({2 + i % 3, 2})), base);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(ARowOfAnExpandedArgument, 4);

TENON_PROGRAM(AnExpandedArgumentIsFilled, 6) {
  auto f = run.compile([](const Tensor& x, const Tensor& y) {
    x.fill_(5);
    x.diagonal().add_(1);
    return x + y;
  });
  for (int i = 0; i < 6; ++i) {
    Tensor base = row({1, 2}), all = i % 2 ? base.expand({2, 2}) : base.repeat({2, 1});
    run.log(f(all, row({float(i), 1})), all, base);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AnExpandedArgumentIsFilled, 6);

// What one argument shows needs a gradient from the write to the other one on.
TENON_PROGRAM(AHistoryForMemoryOfTwoArguments, 6) {
  Tensor w = tensor(2.0f).requires_grad_();
  auto f = run.compile([&](const Tensor& x, const Tensor& y) {
    x.mul_(w);
    return y + 1;
  });
  for (int i = 0; i < 6; ++i) {
    Tensor base = row({1, 2, 3}), other = i % 2 ? row({5, 6}) : base.slice(0, 1);
    Tensor y = f(base, other);
    w.set_grad({});
    (base.sum() + y.sum()).backward();
    run.log(y.detach(), base.detach(), base.requires_grad(), y.requires_grad(), w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AHistoryForMemoryOfTwoArguments, 6);

}  // namespace
}  // namespace tenon::programs
