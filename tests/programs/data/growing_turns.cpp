// Loops that look at data while their tensors grow or shrink: turns of other sizes have code in common.
#include "program.h"

namespace tenon::programs {
namespace {

Tensor rows(int64_t n) { return arange(n * 4, Dtype::f32).reshape({n, 4}) * 0.125; }

// A sequence is made token by token, from what it is so far.
TENON_PROGRAM(TokensAreAddedUntilOneEndsIt, 6) {
  Tensor embedding = arange(64, Dtype::f32).reshape({16, 4}).sin();
  auto f = run.compile([&](const Tensor& prompt, int64_t most) {
    Tensor tokens = prompt;
    while (tokens.size(0) < most) {
      Tensor hidden = embedding.index_select(0, tokens);
      Tensor scores = matmul(hidden.softmax(0).sum(0), embedding.t()) + hidden.select(0, -1).sum();
      Tensor next = (scores * 7).sin().argmax(-1, true);
      tokens = cat({tokens, next});
      if (next.item<int64_t>() == 3) break;
    }
    return tokens;
  });
  for (int64_t start : {1, 5, 2, 7, 1, 11}) run.log(f(arange(start, start + 2, 1, Dtype::i64), 24));
}

TENON_PROGRAM(ACacheOfRowsGrows, 8) {
  auto f = run.compile([](const Tensor& x) {
    Tensor cache = x.narrow(0, 0, 1) * 0.5;
    Tensor sum = zeros({4});
    for (int64_t i = 1; i < x.size(0); ++i) {
      cache = cat({cache, x.narrow(0, i, 1) * 0.5});
      sum = sum + (cache * cache).mean(0);
      if (sum.max().item<float>() > 1e5f) break;
    }
    return std::pair(cache, sum);
  });
  for (int64_t n : {20, 20, 12, 20, 30, 7}) {
    auto [cache, sum] = f(rows(n));
    run.log(cache, sum);
  }
}

TENON_PROGRAM(ColumnsGrow, 6) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x.narrow(1, 0, 1).clone();
    for (int64_t i = 1; i < 12; ++i) {
      y = cat({y, x.narrow(1, i, 1) + y.sum(1, true)}, 1);
      y = y * 0.5 + y.flip({1}) * 0.25;
      if (y.abs().max().item<float>() > 1e5f) break;
    }
    return y;
  });
  for (int i = 0; i < 3; ++i) run.log(f(rows(12).reshape({4, 12}) + i));
}

// What is left of a list after each round.
TENON_PROGRAM(CandidatesGrowFewer, 13) {
  auto f = run.compile([](const Tensor& x) {
    Tensor left = x;
    int rounds = 0;
    while (left.size(0) > 2) {
      left = left.narrow(0, 1, left.size(0) - 1) * 1.125;
      ++rounds;
      if (left.mean().item<float>() > 50) break;
    }
    return std::pair(left, rounds);
  });
  for (float scale : {1.f, 1.f, 4.f, 0.5f, 1.f}) {
    auto [left, rounds] = f(arange(20, Dtype::f32) * scale);
    run.log(left, rounds);
  }
}

TENON_PROGRAM(TwoListsGrowAtTheirOwnPace, 21) {
  auto f = run.compile([](const Tensor& x) {
    Tensor up = x.narrow(0, 0, 2), down = x.narrow(0, 0, 3);
    for (int i = 0; i < 14; ++i) {
      if (up.sum().item<float>() < down.sum().item<float>())
        up = cat({up, up.narrow(0, 0, 1) + i});
      else
        down = cat({down, down.narrow(0, 0, 2) + 0.5 * i});
      up = up + 0.25 * down.mean(0);
    }
    return std::pair(up, down);
  });
  for (int i = 0; i < 5; ++i) {
    auto [up, down] = f(rows(5) - i % 3);
    run.log(up, down);
  }
}

// The sizes come from those of the argument, which take turns.
TENON_PROGRAM(WhatGrowsBeginsWithOtherSizes, 12) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 8; ++i) {
      y = cat({y, y.narrow(0, 0, 1) * 0.5});
      if (y.sum().item<float>() > 1e5f) break;
    }
    return y.sum(0) + static_cast<double>(y.size(0));
  });
  for (int64_t n : {5, 5, 7, 9, 5, 7, 30, 2, 1, 9}) run.log(f(rows(n)));
}

TENON_PROGRAM(ViewsOfWhatGrowsAreWritten, 11) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x.clone();
    for (int i = 0; i < 10; ++i) {
      y = cat({y, y.narrow(0, i, 1)});
      Tensor tail = y.narrow(0, i, 2);
      if (tail.sum().item<float>() > 1e5f) break;
      tail.mul_(0.75).add_(i);
    }
    return y;
  });
  for (int i = 0; i < 4; ++i) run.log(f(rows(3) + i));
}

TENON_PROGRAM(GradientsOfWhatGrows, 10) {
  Tensor w = full({4}, 0.5).requires_grad_();
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 8; ++i) {
      y = cat({y, (y * w).sum(0, true) * 0.125});
      if (y.abs().max().item<float>() > 1e5f) break;
    }
    return y.square().mean();
  });
  for (int i = 0; i < 4; ++i) {
    w.set_grad({});
    Tensor loss = f(rows(3) * 0.25 + i % 2);
    loss.backward();
    run.log(loss, w.grad());
  }
}

// A transposed list: its strides follow from the size that grows.
TENON_PROGRAM(TransposedListsGrow, 8) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x.t();
    for (int i = 0; i < 8; ++i) {
      y = cat({y.t(), y.t().narrow(0, 0, 1) + i}).t();
      if (y.sum().item<float>() > 1e5f) break;
      y = y * 0.5;
    }
    return std::pair(y, int64_t{y.stride(1)});
  });
  for (int64_t n : {3, 3, 6, 3, 9}) {
    auto [y, stride] = f(rows(n));
    run.log(y, stride);
  }
}

// Segments that begin with the same operation and are no turns keep their sizes.
TENON_PROGRAM(LayersOfManyWidths, 6) {
  std::vector<Tensor> weights;
  int64_t from = 4;
  for (int64_t to : {8, 16, 6}) {
    weights.push_back((arange(from * to, Dtype::f32) * 0.1).sin().reshape({from, to}));
    from = to;
  }
  auto f = run.compile([&](const Tensor& x) {
    Tensor y = x;
    for (const Tensor& w : weights) {
      y = matmul(y, w).relu();
      if (y.sum().item<float>() > 1e5f) break;
    }
    return y;
  });
  for (int i = 0; i < 5; ++i) run.log((f(rows(3) - i) * 64).round());
}

}  // namespace
}  // namespace tenon::programs
