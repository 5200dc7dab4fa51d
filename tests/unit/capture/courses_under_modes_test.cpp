// Courses of a body that part where the body has set modes, or within a pass, are recorded once.
#include "unit/capture/short.h"

#include <tenon/report.h>
#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <optional>

namespace tenon {
namespace {

int64_t n_recorded() { return counters()["frames.total"]; }

/// How many recordings `n` calls need.
template <class F>
int64_t recordings_of(int n, F call) {
  int64_t before = n_recorded();
  for (int i = 0; i < n; ++i) call(i);
  return n_recorded() - before;
}

TEST(CoursesThatPart, WhereGradientsAreOff) {
  int i = 0;
  auto f = compile(
      [&](const Tensor& x) {
        Tensor y = x * 2.0;
        NoGradGuard no_grad;
        return i % 2 ? y.sin() : y.cos();
      },
      eager);
  EXPECT_EQ(recordings_of(20, [&](int call) { i = call, f(ones({4, 3})); }), 2);
}

TEST(CoursesThatPart, UnderAutocast) {
  int i = 0;
  auto f = compile(
      [&](const Tensor& x) {
        AutocastGuard types{AutocastOptions{}};
        Tensor y = x.matmul(x);
        return i % 2 ? y.sin() : y.cos();
      },
      eager);
  EXPECT_EQ(recordings_of(20, [&](int call) { i = call, f(ones({3, 3})); }), 2);
}

TEST(CoursesThatPart, WithinAPass) {
  for (bool fullgraph : {false, true}) {
    Tensor w = ones({3}).requires_grad_();
    auto f = compile(
        [&](const Tensor& x) {
          (x * w).sum().backward();
          return x.sum();
        },
        {.backend = "eager", .fullgraph = fullgraph});
    auto call = [&](int i) {
      if (i % 2 == 0) w.set_grad({});
      f(ones({4, 3}));
    };
    EXPECT_LE(recordings_of(20, call), 3) << fullgraph;
  }
}

TEST(CoursesThatPart, WhereUpdatesAreSkipped) {
  Tensor w = ones({3}).requires_grad_();
  int i = 0;
  auto f = compile(
      [&](const Tensor& x) {
        (x * w).sum().backward();
        if (i % 2 == 0) return x.sum();
        NoGradGuard no_grad;
        w.sub_(w.grad() * 0.125);
        w.set_grad({});
        return x.sum();
      },
      {.backend = "eager", .fullgraph = true, .recompile_limit = 2});
  EXPECT_EQ(recordings_of(20, [&](int call) { i = call, f(ones({4, 3})); }), 2);
  EXPECT_EQ(w.to_vector<float>()[0], 1 - 10.0f);
}

}  // namespace
}  // namespace tenon
