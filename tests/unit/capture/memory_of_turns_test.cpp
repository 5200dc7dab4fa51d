// What the turns of a loop in a body have needed is free when the next turns come, as in a plain run:
// gradients, what uncompiled code has made, and tensors whose addresses the body has asked for.
#include "core/tensor/allocator.h"

#include <tenon/autograd.h>
#include <tenon/compile.h>
#include <tenon/ops.h>

#include <gtest/gtest.h>

namespace tenon {
namespace {

constexpr int n_turns = 20;

// The most that a call takes beside what there is, in units of its argument: of the first call, which
// is recorded, and of a later one, which follows it.
template <class F>
void expect_few_at_once(F body) {
  auto f = compile(body, {.backend = "eager"});
  Tensor x = ones({1 << 18});
  auto most = [&] {
    reset_allocator_peak();
    int64_t before = allocator_stats().current_bytes;
    f(x);
    return (allocator_stats().peak_bytes - before) / (1 << 20);
  };
  int64_t recorded = most();
  f(x);
  EXPECT_LT(recorded, 9);
  EXPECT_LT(most(), 9);
}

TEST(MemoryOfTurns, GradientsThatTheBodyAsksFor) {
  expect_few_at_once([](const Tensor& x) {
    Tensor w = x.clone().requires_grad_();
    for (int turn = 0; turn < n_turns; ++turn) {
      Tensor g = autograd::grad({(w * w).sum()}, {w})[0];
      w = (w - g * 0.125).detach().requires_grad_();
    }
    return w.detach();
  });
}

TEST(MemoryOfTurns, GradientsOfALeaf) {
  expect_few_at_once([](const Tensor& x) {
    Tensor w = x.clone().requires_grad_();
    for (int turn = 0; turn < n_turns; ++turn) {
      (w * w).sum().backward();
      NoGradGuard off;
      w.sub_(w.grad() * 0.125);
      w.set_grad({});
    }
    return w.detach();
  });
}

TEST(MemoryOfTurns, WhatUncompiledCodeMakes) {
  expect_few_at_once([](Tensor x) {
    for (int turn = 0; turn < n_turns; ++turn) {
      x = x * 0.5;
      {
        NoCompile here;
        x = x + 1.0;
      }
      x = x * 2.0;
    }
    return x;
  });
}

TEST(MemoryOfTurns, TensorsWhoseAddressIsKnown) {
  expect_few_at_once([](Tensor x) {
    for (int turn = 0; turn < n_turns; ++turn) {
      x = x * 0.5 + 1.0;
      if (x.data_ptr<float>()[0] < 0) break;
    }
    return x;
  });
}

}  // namespace
}  // namespace tenon
