// What is written or given other sizes while gradients are off, around the call or in the body,
// keeps the history that it had.
#include "../program.h"

#include <tenon/compiler.h>

namespace tenon::programs {
namespace {

void log_gradient(Run& run, const Tensor& t, const Tensor& w) {
  w.set_grad({});
  (t * t).sum().backward();
  run.log(t, w.grad());
}

TENON_PROGRAM(AMaskIsAppliedUnderNoGradGuard, 4) {
  auto mask = run.compile([](const Tensor& h, const Tensor& m) { h.mul_(m).relu_(); });
  Tensor w = halves({4}).requires_grad_();
  for (int i = 0; i < 4; ++i) {
    Tensor h = w * 2;
    {
      NoGradGuard off;
      mask(h, halves({4}, i));
    }
    log_gradient(run, h, w);
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(AMaskIsAppliedUnderNoGradGuard, 4);

TENON_PROGRAM(ARowIsFilledUnderNoGradGuard, 4) {
  Tensor h;
  auto fill = run.compile([&](const Tensor& row) {
    h[0].copy_(row);
    h.select(1, 0).mul_(0.5);
  });
  Tensor w = halves({3, 4}).requires_grad_();
  for (int i = 0; i < 4; ++i) {
    h = w * 2;
    {
      NoGradGuard off;
      fill(halves({4}, i));
    }
    log_gradient(run, h, w);
  }
}

TENON_PROGRAM(ARowOfALeafIsAnArgument, 4) {
  auto clamp = run.compile([](const Tensor& row) { row.clamp_(-0.5, 0.5); });
  Tensor w = halves({3, 4}).requires_grad_();
  for (int i = 0; i < 3; ++i) {
    NoGradGuard off;
    clamp(w[i]);
    EnableGradGuard on;
    run.log(w.is_leaf());
    log_gradient(run, w, w);
  }
}

TENON_PROGRAM(ARowIsWrittenBehindABreak, 12) {
  Tensor w;
  auto f = run.compile([&](const Tensor& x) {
    NoGradGuard off;
    Tensor row = w[0];
    graph_break();
    row.mul_(0.5);
    return x * 2;
  });
  Tensor leaf = halves({2, 2}).requires_grad_();
  for (int i = 0; i < 6; ++i) {
    w = i % 2 ? leaf * 1 : leaf;
    run.log(f(halves({2}, i)));
    log_gradient(run, w, leaf);
  }
}

TENON_PROGRAM(ARowIsWrittenBehindDetach, 4) {
  auto f = run.compile([](const Tensor& x) {
    NoGradGuard off;
    Tensor row = x[0];
    x.detach_();
    row.add_(1);
    return row * 1;
  });
  Tensor w = halves({2, 2}).requires_grad_();
  for (int i = 0; i < 3; ++i) {
    Tensor x = w * float(i);
    run.log(f(x), x.requires_grad());
  }
}

TENON_PROGRAM(RowsOfALeafAreTransposed, 4) {
  auto f = run.compile([](const Tensor& x) {
    NoGradGuard off;
    x.t_();
    return x + 1;
  });
  Tensor w = halves({3, 2}).requires_grad_();
  for (int i = 0; i < 3; ++i) {
    Tensor rows = i ? w.slice(0, 0, 2) : (w * 2).slice(0, 0, 2);
    run.log(f(rows), rows, rows.requires_grad(), rows.is_leaf());
  }
}

}  // namespace
}  // namespace tenon::programs
