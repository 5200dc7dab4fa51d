// Tensors of changing sizes that a body names behind a graph break, before it goes one way or another.
#include "program.h"

namespace tenon::programs {
namespace {

Tensor rows(int64_t n) { return arange(n * 3, Dtype::f32).reshape({n, 3}) * 0.25; }

constexpr int64_t sizes[] = {4, 2, 2, 2, 4, 5, 3, 2, 6, 4};
constexpr bool ways[] = {false, true, false, true, false, false, true, false, true, false};

/// `body(x, turns)` with arguments of these sizes.
template <class Body>
void run_both_ways(Run& run, Body body) {
  bool turns = false;
  auto f = run.compile([&](const Tensor& x) { return body(x, turns); });
  for (size_t i = 0; i < std::size(sizes); ++i) {
    turns = ways[i];
    run.log(f(rows(sizes[i])));
  }
}

TENON_PROGRAM(WhatAMaskSelects, 5) {
  run_both_ways(run, [](const Tensor& x, bool turns) {
    Tensor positive = x.masked_select(x > 0), mean = positive.mean(0), d = x.clone();
    if (turns) d = -d;
    return d.sum(0) + mean;
  });
}

TENON_PROGRAM(WhatAnUncompiledPartGives, 6) {
  auto half = disable([](const Tensor& t) { return t * 0.5; });
  run_both_ways(run, [&](const Tensor& x, bool turns) {
    Tensor c = half(x), m = c.sum() + zeros({c.size(0)}), d = x.clone();
    if (turns) d = -d;
    return d.sum(1) + m;
  });
}

TENON_PROGRAM(ACacheThatIsReplaced, 8) {
  Tensor cache;
  int64_t calls = 0;
  run_both_ways(run, [&](const Tensor& x, bool turns) {
    cache = rows(sizes[calls++ * 7 % std::ssize(sizes)]);
    Tensor a = x * 2.0;
    if (a.sum().item<float>() < -1e9f) return a;
    Tensor near = a.matmul(cache.t()).matmul(cache), m = cache.sum(0);
    if (turns) near = near + 1.0;
    return near + m;
  });
}

TENON_PROGRAM(ACacheIsWritten, 4) {
  Tensor cache;
  bool turns = false;
  auto f = run.compile([&](const Tensor& x) {
    Tensor a = x * 2.0;
    graph_break("the middle");
    cache.add_(a.sum(0));
    Tensor m = a.sum(0);
    if (turns) m = m * 2.0;
    return m;
  });
  for (size_t i = 0; i < std::size(sizes); ++i) {
    turns = ways[i];
    cache = rows(sizes[i]);
    run.log(f(rows(3)), cache);
  }
}

// Both are of one size, whose symbol they share, until they are not.
TENON_PROGRAM(TwoCachesThatAgreeMostly, 8) {
  Tensor keys, values;
  bool turns = false;
  auto f = run.compile([&](const Tensor& x) {
    Tensor a = x + keys.sum(0) + values.sum(0);
    graph_break("the middle");
    Tensor b = a * 2.0 + keys.amax() - values.amin();
    if (turns) b = b.abs();
    return b;
  });
  for (size_t i = 0; i < std::size(sizes); ++i) {
    turns = ways[i];
    keys = rows(sizes[i]);
    values = rows(sizes[i] + (i % 4 == 3));
    run.log(f(rows(2)));
  }
}

TENON_PROGRAM(ABatchThatIsCaptured, 4) {
  Tensor batch, wanted, w = rows(1).reshape({3, 1}).requires_grad_();
  bool turns = false;
  auto f = run.compile([&](double rate) {
    Tensor penalty = (w * w).sum() * rate;
    if (penalty.item<float>() > 1e9f) return penalty;
    Tensor loss = mse_loss(batch.matmul(w), wanted) + penalty;
    if (turns) loss = loss * 2.0;
    return loss;
  });
  for (size_t i = 0; i < std::size(sizes); ++i) {
    turns = ways[i];
    batch = rows(sizes[i]).remainder(2);
    wanted = batch.sum(1, true).remainder(3);
    w.set_grad({});
    Tensor loss = f(0.5);
    loss.backward();
    run.log(loss, w.grad());
  }
}

}  // namespace
}  // namespace tenon::programs
