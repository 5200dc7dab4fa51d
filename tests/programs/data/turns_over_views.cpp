// Loops that look at data and take another view of a tensor in each turn, which they write: code for
// one place of the view in its memory serves the others.
#include "program.h"

namespace tenon::programs {
namespace {

Tensor table(int64_t rows, int64_t columns, int64_t step) {
  Tensor count = arange(rows * columns, Dtype::f32) * static_cast<double>(step);
  return ((count.remainder(13) - 6) * 0.125).reshape({rows, columns});
}

TENON_PROGRAM(EachRowIsWrittenAndLookedAt, 6) {
  auto f = run.compile([](const Tensor& x) {
    for (int64_t i = 0; i < x.size(0); ++i) {
      Tensor row = x[i];
      row.add_(1);
      if (row.sum().item<float>() > 1e5f) break;
      row.mul_(0.5);
    }
    return x.sum(0);
  });
  for (int i = 0; i < 3; ++i) {
    Tensor x = table(40, 4, 3 + i);
    run.log(f(x), x);
  }
}

// More turns than a tree of courses may be deep: each call records anew.
TENON_PROGRAM(MoreRowsThanCoursesMayHave, 6) {
  auto f = run.compile([](const Tensor& x) {
    for (int64_t i = 0; i < x.size(0); ++i) {
      Tensor row = x[i];
      row.mul_(0.5);
      if (row.sum().item<float>() > 1e5f) break;
      row.add_(1);
    }
    return x.sum(0);
  });
  for (int i = 0; i < 2; ++i) run.log(f(table(600, 2, 3 + i)));
}

TENON_PROGRAM(RowsOfATensorOfTheBody, 6) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x * 2, row = y[0];
    for (int64_t i = 1; i < x.size(0); ++i) {
      graph_break("turn");
      row.add_(1);
      row = y[i];
    }
    return y;
  });
  for (int64_t step : {3, 5, 4}) run.log(f(table(30, 4, step)));
}

TENON_PROGRAM(EachRowAddsToTheNext, 8) {
  auto f = run.compile([](const Tensor& x) {
    for (int64_t i = 1; i < x.size(0); ++i) {
      Tensor before = x[i - 1], row = x[i];
      if ((before - row).sum().item<float>() > 0) row.add_(before * 0.5);
    }
    return x.sum(0);
  });
  for (int64_t step : {3, 3, 5, 4}) {
    Tensor x = table(24, 4, step);
    run.log(f(x), x);
  }
}

TENON_PROGRAM(AWindowAndTheWholeAreWritten, 6) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x + 0.0;
    for (int64_t i = 0; i + 2 < x.size(0); ++i) {
      Tensor window = y.narrow(0, i, 2);
      if (window.sum().item<float>() > 1e5f) break;
      window.mul_(0.5);
      y.add_(0.25);
    }
    return y;
  });
  for (int64_t step : {3, 3, 5}) run.log(f(table(22, 4, step)));
}

// The window comes to lie upon the row, and leaves it again.
TENON_PROGRAM(AWindowPassesOverARow, 16) {
  auto f = run.compile([](const Tensor& x) {
    Tensor row = x[6];
    for (int64_t i = 0; i + 2 < x.size(0); ++i) {
      Tensor window = x.narrow(0, i, 2);
      if (window.sum().item<float>() > 1e5f) break;
      window.mul_(0.5);
      row.add_(window.sum(0));
    }
    return x.sum(0);
  });
  for (int64_t step : {3, 3, 5}) {
    Tensor x = table(16, 4, step);
    run.log(f(x), x);
  }
}

// Where the row lies is a number of the data: one step of learning by trial.
TENON_PROGRAM(TheDataChooseTheRow, 8) {
  Tensor q = zeros({50, 4});
  int64_t state = 0;
  auto f = run.compile([&](const Tensor& noise) {
    Tensor row = q[state];
    auto action = (row + noise).argmax().item<int64_t>();
    state = (state * 7 + action * 3 + 1) % 50;
    row[action].mul_(0.5).add_(q[state].max() * 0.5 + 1);
    return row.sum();
  });
  for (int i = 0; i < 80; ++i)
    run.log(f((arange(4, Dtype::f32) * static_cast<double>(i)).remainder(3)));
  run.log(q);
}

// What is left of a queue, from which the data say how much to take.
TENON_PROGRAM(AQueueGetsShorter, 10) {
  auto f = run.compile([](const Tensor& x) {
    Tensor left = x;
    for (int64_t n = x.size(0); n > 3;) {
      auto taken = 1 + static_cast<int64_t>(left[0].abs().sum().item<float>()) % 3;
      left = left.slice(0, taken);
      n -= taken;
    }
    return left * 2;
  });
  for (int64_t step : {3, 3, 5, 4}) run.log(f(table(40, 4, step)));
}

TENON_PROGRAM(RowsThatTheBodyCaptures, 8) {
  Tensor base = zeros({40, 4});
  std::vector<Tensor> rows = base.unbind(0);
  auto f = run.compile([&](const Tensor& x) {
    for (Tensor& row : rows) {
      row.add_(x);
      base.mul_(0.5);
      if (base.sum().item<float>() > 1e5f) break;
    }
    return base.sum(0);
  });
  for (int i = 0; i < 3; ++i) run.log(f(table(4, 1, 3 + i).flatten()));
  base = zeros({30, 4});
  rows = base.unbind(0);
  run.log(f(ones({4})), base);
}

// Without names for what differs between turns there is a limit.
TENON_PROGRAM(RowsAtTheLimit, 10) {
  Tensor base = zeros({40, 4});
  std::vector<Tensor> rows = base.unbind(0);
  auto f = run.compile(
      [&](const Tensor& x) {
        for (Tensor& row : rows) {
          row.add_(x);
          base.mul_(0.5);
          if (base.sum().item<float>() > 1e5f) break;
        }
        return base.sum(0);
      },
      {.options = {{"dynamo.automatic_dynamic_shapes", "false"}}});
  for (int i = 0; i < 3; ++i) run.log(f(table(4, 1, 3 + i).flatten()));
  run.log(base, run.is_plain() || f.stats().eager_calls_after_limit == 3);
}

TENON_PROGRAM(GradientsThroughWrittenRows, 8) {
  Tensor w = table(1, 4, 8).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x * w;
    for (int64_t i = 1; i < x.size(0); ++i) {
      Tensor row = y[i];
      row.mul_(0.5);
      if (row.sum().item<float>() > 1e5f) break;
      row.add_(y[i - 1]);
    }
    return y.square().sum();
  });
  for (int64_t step : {3, 3, 5}) {
    w.set_grad({});
    Tensor loss = f(table(8, 4, step));
    loss.backward();
    run.log(loss, w.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
