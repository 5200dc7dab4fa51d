// What the program writes to a tensor between calls, with a history, reaches the views of it that
// compiled code has given, as in a plain run; detached ones have none.
#include "../program.h"

namespace tenon::programs {
namespace {

TENON_PROGRAM(ViewsOfResults, 6) {
  Tensor w = full({3}, 2.0).requires_grad_();
  auto f = run.compile([](const Tensor& x) {
    Tensor h = x * 2, rows = h.select(0, 0);
    return std::tuple(h, rows, h.t().narrow(0, 1, 2), h.detach().select(0, 0));
  });
  for (int i = 0; i < 6; ++i) {
    auto [h, row, columns, apart] = f(halves({2 + i % 2, 3}, i));
    h.mul_(w);
    run.log(h, row, columns, apart);
    run.log(row.requires_grad(), columns.requires_grad(), apart.requires_grad());
    w.set_grad({});
    (row.sum() + columns.square().sum()).backward();
    run.log(w.grad());
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(ViewsOfResults, 2);

TENON_PROGRAM(ViewsOfArguments, 8) {
  Tensor w = full({3}, 2.0).requires_grad_();
  auto f =
      run.compile([](const Tensor& x) { return std::tuple(x.select(0, 0), x.detach(), x.t()); });
  for (int i = 0; i < 6; ++i) {
    Tensor x = halves({2 + i % 2, 3}, i);
    auto [row, apart, turned] = f(x);
    if (i % 2)
      x.select(0, 0).mul_(w);
    else
      turned.mul_(w.sum());
    run.log(x, row, apart, turned, x.requires_grad());
    run.log(row.requires_grad(), apart.requires_grad(), turned.requires_grad());
    w.set_grad({});
    (row.sum() + turned.square().sum()).backward();
    run.log(w.grad());
  }
}

TENON_PROGRAM(ViewsOfViewsThatTheBodyKeeps, 8) {
  Tensor w = full({3}, 2.0).requires_grad_(), kept;
  auto f = run.compile([&](const Tensor& x) {
    Tensor h = x * 2;
    kept = h.select(0, 0);
    return h;
  });
  for (int i = 0; i < 6; ++i) {
    Tensor h = f(halves({2 + i % 2, 3}, i)), part = kept.narrow(0, 0, 2), inner = part.select(0, 1);
    if (i % 2) part.mul_(w.sum());
    if (i % 3) h.mul_(w);
    if (i % 3 != 1) kept.mul_(w);
    run.log(h, kept, part, inner, kept.requires_grad(), inner.requires_grad());
    w.set_grad({});
    (part.sum() + inner * 2 + kept.square().sum()).backward();
    run.log(w.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
