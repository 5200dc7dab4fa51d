// Loops that look at data in each turn: turns that differ in a number have code in common.
#include "program.h"

namespace tenon::programs {
namespace {

bool is_too_large(const Tensor& y) { return y.abs().max().item<float>() > 1e6f; }

Tensor rows(int64_t n) { return arange(n * 4, Dtype::f32).reshape({n, 4}) * 0.125; }

TENON_PROGRAM(TurnsTakeOneRowEach, 4) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = zeros({4});
    for (int i = 0; i < 30; ++i) {
      y = y * 0.5 + x.select(0, i);
      if (is_too_large(y)) break;
    }
    return y;
  });
  for (int i = 0; i < 4; ++i) run.log(f(rows(30) + i));
}

TENON_PROGRAM(SequencesOfManyLengths, 24) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = zeros({4});
    for (int64_t i = 0; i < x.size(0); ++i) {
      y = y * 0.5 + x.select(0, i);
      if (is_too_large(y)) break;
    }
    return y;
  });
  for (int64_t n : {20, 20, 25, 12, 25, 30, 7, 40, 20, 1, 2, 40}) run.log(f(rows(n)));
}

TENON_PROGRAM(AFactorFallsWithEachTurn, 4) {
  auto f = run.compile([](const Tensor& x, double factor) {
    Tensor y = x;
    for (int i = 0; i < 20; ++i, factor *= 0.5) {
      y = y * factor + 0.25;
      if (y.sum().item<float>() < 0.01f) break;
    }
    return y;
  });
  for (double factor : {1.0, 2.0, 0.5, 1.0}) run.log(f(rows(2), factor));
}

TENON_PROGRAM(WindowsMoveAlong, 6) {
  int64_t step = 1;
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = zeros({3, 4});
    for (int64_t i = 0; i + 3 <= 24; i += step) {
      y = y * 0.5 + x.narrow(0, i, 3);
      if (is_too_large(y)) break;
    }
    return y;
  });
  for (int64_t s : {2, 2, 3, 1, 7, 2}) {
    step = s;
    run.log(f(rows(24)));
  }
}

TENON_PROGRAM(TurnsTakeOneOfTwoWays, 10) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = zeros({4});
    int ups = 0;
    for (int i = 0; i < 12; ++i) {
      y = y + x.select(0, i);
      if (y.sum().item<float>() > 4) {
        y = y - 0.5 * i;
      } else {
        y = y * 1.5;
        ++ups;
      }
      if (is_too_large(y)) break;
    }
    return std::pair(y, ups);
  });
  for (int i = 0; i < 6; ++i) {
    auto [y, ups] = f(rows(12) - i);
    run.log(y, ups);
  }
}

TENON_PROGRAM(TurnsWriteOneRowEach, 6) {
  auto f = run.compile([](Tensor x) {
    for (int i = 1; i < 12; ++i) {
      x.select(0, i).add_(x.select(0, i - 1), 0.5).sub_(i);
      if (x.select(0, i).sum().item<float>() < -1e6f) break;
    }
    return x.sum();
  });
  Tensor x = rows(12);
  for (int i = 0; i < 4; ++i) run.log(f(x), x);
}

TENON_PROGRAM(TurnsTrainOneBatchEach, 16) {
  Tensor w = ones({4}).requires_grad_();
  optim::SGD opt({w}, {.lr = 0.0625});
  auto f = run.compile([&](const Tensor& x) {
    int64_t i = 0;
    for (; i < x.size(0); ++i) {
      opt.zero_grad();
      Tensor loss = (x.select(0, i) * w).sum().square() * 0.0625;
      loss.backward();
      opt.step();
      if (loss.item<float>() > 1e6f) break;
    }
    return i;
  });
  for (int i = 0; i < 4; ++i) {
    int64_t turns = f(rows(6) * 0.25);
    run.log(turns, w);
  }
}

// A number that looks like one of another turn is none: the shapes differ.
TENON_PROGRAM(SegmentsThatOnlyBeginAlike, 6) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x * 2.0;
    if (is_too_large(y)) return y;
    y = y * 3.0;
    y = y.reshape({2, -1});
    if (is_too_large(y)) return y;
    return (y * 4.0).reshape({4, -1}).sum(0);
  });
  for (int i = 0; i < 3; ++i) run.log(f(rows(2) + i));
}

TENON_PROGRAM(CountersOfTurnsAndCallsMix, 10) {
  int64_t calls = 0;
  auto f = run.compile([&](const Tensor& x) {
    ++calls;
    Tensor y = x;
    for (int64_t i = 0; i < 6; ++i) {
      y = y * (1.0 / static_cast<double>(1 << (i % 3))) + calls * i;
      if (is_too_large(y)) break;
    }
    return y;
  });
  for (int i = 0; i < 6; ++i) run.log(f(rows(2)));
}

}  // namespace
}  // namespace tenon::programs
