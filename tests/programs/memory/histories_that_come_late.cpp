// Memory gets a history by a write to another tensor over it, before or after a view is made: behind
// graph breaks, by operations that are not compiled, and by the program behind the call.
#include "../program.h"

#include <tenon/compiler.h>

namespace tenon::programs {
namespace {

void log_gradients(Run& run, const std::vector<Tensor>& results,
                   const std::vector<Tensor>& leaves) {
  for (const Tensor& w : leaves) w.set_grad({});
  Tensor loss = zeros({});
  for (size_t i = 0; i < results.size(); ++i) {
    run.log(results[i], results[i].requires_grad());
    if (results[i].requires_grad()) loss = loss + (results[i] * double(i + 1)).sum();
  }
  if (loss.requires_grad()) loss.backward();
  for (const Tensor& w : leaves) run.log(w.grad());
}

TENON_PROGRAM(AnArgumentThatIsAViewIsWritten, 8) {
  auto f = run.compile([](const Tensor& column, const Tensor& y) {
    column.mul_(y);
    graph_break();
    return column * 3;
  });
  Tensor y = halves({2}).requires_grad_();
  for (int i = 0; i < 4; ++i) {
    Tensor base = halves({2, 2}, i);
    log_gradients(run, {f(base.select(0, 1), y), base}, {y});
  }
}

TENON_PROGRAM(AViewIsReadBehindAWriteToItsBase, 8) {
  auto f = run.compile([](const Tensor& x, const Tensor& y) {
    Tensor base = x * 1, row = base.select(0, 0);
    graph_break();
    base.mul_(y);
    graph_break();
    return row * 2;
  });
  Tensor y = halves({2}).requires_grad_();
  for (int i = 0; i < 4; ++i) log_gradients(run, {f(halves({2, 2}, i), y)}, {y});
}

TENON_PROGRAM(AnOperationThatIsNotCompiledWrites, 24) {
  Tensor held, around;
  auto f = run.compile([&](const Tensor& x, const Tensor& y) {
    Tensor a = x * 1, flat = a.view({-1});
    {
      NoCompile plain;
      flat.add_(x * y);
      held.mul_(y);
    }
    return std::pair(a * y, held * 3 + around);
  });
  for (int i = 0; i < 4; ++i) {
    Tensor y = halves({2}).requires_grad_(i != 2);
    around = halves({2}, i + 1);
    held = i % 2 ? halves({2, 2}, i)[0] : halves({2}, i);
    auto [a, b] = f(halves({2}, i), y);
    log_gradients(run, {a, b}, {y});
  }
}

TENON_PROGRAM(TheBodyAsksForNeedsBehindSuchAWrite, 12) {
  auto f = run.compile([](const Tensor& x, const Tensor& y) {
    {
      NoCompile plain;
      x.mul_(y);
    }
    return x.requires_grad() ? x * 2 : x * 3;
  });
  for (int i = 0; i < 4; ++i) {
    Tensor y = halves({2}).requires_grad_(i % 2 == 0);
    log_gradients(run, {f(halves({2}, i), y)}, {y});
  }
}

TENON_PROGRAM(ViewsOfWhatDetachGives, 4) {
  auto f = run.compile([](const Tensor& x) {
    Tensor apart = x.detach(), row = apart[0];
    return std::tuple(row[1], row, apart, x.detach()[1]);
  });
  Tensor y = halves({2}).requires_grad_();
  for (int i = 0; i < 4; ++i) {
    Tensor x = halves({2, 2}, i).requires_grad_(i % 2);
    auto [number, row, apart, other] = f(x);
    row.mul_(y);
    log_gradients(run, {number, row, apart, other}, {y});
  }
}
TENON_PROGRAM_IN_ONE_GRAPH(ViewsOfWhatDetachGives, 4);

TENON_PROGRAM(RowsOfWhatDetachGives, 4) {
  auto f = run.compile([](const Tensor& x) {
    Tensor h = x * 2, apart = h.detach();
    return std::tuple(h, apart[0], apart.view({-1}));
  });
  Tensor y = halves({2}).requires_grad_();
  for (int i = 0; i < 4; ++i) {
    Tensor x = halves({2, 2}, i).requires_grad_(i % 2);
    auto [h, row, flat] = f(x);
    row.mul_(y);
    log_gradients(run, {h, row, flat}, {y, x});
  }
}

TENON_PROGRAM(WhatDetachGivesIsWrittenBehindABreak, 8) {
  auto f = run.compile([](const Tensor& x, const Tensor& y) {
    Tensor apart = x.detach(), row = apart[0];
    graph_break();
    row.mul_(y);
    return apart * 1;
  });
  Tensor y = halves({2}).requires_grad_();
  for (int i = 0; i < 4; ++i) {
    Tensor x = halves({2, 2}, i);
    log_gradients(run, {f(x, y), x}, {y});
  }
}

TENON_PROGRAM(AViewByPlaceShowsMoreThanItsArgument, 8) {
  auto f = run.compile([](const Tensor& x) {
    Tensor all = x.select(0, 0).as_strided({4}, {1}, 0);
    return std::pair(all, all.view({2, 2})[1]);
  });
  Tensor w = halves({2, 2}).requires_grad_();
  for (int i = 0; i < 4; ++i) {
    Tensor x = w * 2;
    auto [all, row] = f(x);
    if (i % 2) all.mul_(3);
    log_gradients(run, {all, row, x}, {w});
  }
}

TENON_PROGRAM(ARowIsMadeToShowMore, 8) {
  auto f = run.compile([](const Tensor& row) {
    row.as_strided_({2, 2}, {1, 2});
    return row * 1;
  });
  Tensor w = halves({2, 3}).requires_grad_();
  for (int i = 0; i < 2; ++i) {
    Tensor row = (w * 2).select(0, 0);
    f(row);
    log_gradients(run, {row}, {w});
  }
}

TENON_PROGRAM(SuchAViewIsReadBehindABreak, 8) {
  auto f = run.compile([](const Tensor& x) {
    Tensor h = x * 1, all = h.select(0, 0).as_strided({4}, {1}, 0);
    graph_break();
    return all * 2;
  });
  Tensor w = halves({2, 2}).requires_grad_();
  for (int i = 0; i < 3; ++i) log_gradients(run, {f(w)}, {w});
}

TENON_PROGRAM(ACapturedBaseIsReturnedBesideItsWrittenRow, 8) {
  Tensor base, x;
  auto f = run.compile([&](const Tensor& row, const Tensor& y) {
    row.add_(y.mean());
    return std::vector{base, row};
  });
  for (int part = 0; part < 3; ++part)
    for (int i = 0; i < 3; ++i) {
      Tensor y = halves({2}).requires_grad_(), all = halves({2, 2}, i);
      base = part == 1 ? all[0] : all;
      x = part == 2 ? all.t() : all[1 - part / 2];
      log_gradients(run, f(x, y), {y});
    }
}

}  // namespace
}  // namespace tenon::programs
