// Units: when a followed run takes one, and when it looks at each of its operations.
#include "core/op_unit.h"
#include "unit/capture/short.h"

#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace tenon {
namespace {

/// `state` moves towards `goal`, as one unit. Tells whether that was done already.
struct Move {
  uint64_t number = new_op_unit_number();
  int n_called = 0;

  void operator()(const Tensor& state, const Tensor& goal) {
    NoGradGuard no_grad;
    const Tensor* tensors[] = {&state, &goal};
    OpUnit unit(number, tensors);
    if (unit.is_done()) return;
    ++n_called;
    state.add_(goal.sub(state).mul_(0.5));
  }
};

std::vector<float> numbers(const Tensor& t) { return t.to_vector<float>(); }

TEST(OpUnits, AreCalledInARecordingAndTakenAfterIt) {
  Move move;
  Tensor state = zeros({2});
  auto f = compile(
      [&](const Tensor& x) {
        move(state, x);
        return state * 1.0;
      },
      eager);
  for (int i = 0; i < 5; ++i) f(full({2}, 32));
  EXPECT_EQ(numbers(state), (std::vector<float>{31, 31}));
  EXPECT_EQ(move.n_called, 1);
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST(OpUnits, AreCalledOutsideOfCompiledCode) {
  Move move;
  Tensor state = zeros({2});
  for (int i = 0; i < 3; ++i) move(state, full({2}, 8));
  EXPECT_EQ(move.n_called, 3);
  EXPECT_EQ(numbers(state), (std::vector<float>{7, 7}));
}

TEST(OpUnits, AreLookedAtWhereTheirNumberIsAnother) {
  Move one, other;
  Tensor state = zeros({2});
  bool turn = false;
  auto f = compile(
      [&](const Tensor& x) {
        (turn ? other : one)(state, x);
        return state * 1.0;
      },
      eager);
  for (int i = 0; i < 4; ++i, turn = !turn) f(full({2}, 16));
  EXPECT_EQ(numbers(state), (std::vector<float>{15, 15}));
  EXPECT_EQ(one.n_called, 1);
  EXPECT_EQ(other.n_called, 2);
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST(OpUnits, AreLookedAtWhereATensorIsAnother) {
  Move move;
  Tensor state = zeros({2});
  int i = 0;
  auto f = compile(
      [&](const Tensor& x) {
        Tensor y = x * 2.0;
        move(state, i < 2 ? x : y);
        return y;
      },
      eager);
  for (i = 0; i < 4; ++i) f(full({2}, 8));
  EXPECT_EQ(numbers(state), (std::vector<float>{13.5, 13.5}));
  EXPECT_EQ(move.n_called, 2);
}

TEST(OpUnits, StayWhereTheirStepsAreRecordedAgain) {
  Move move;
  Tensor state = zeros({2});
  int i = 0;
  auto f = compile(
      [&](const Tensor& x) {
        move(state, x);
        Tensor y = state * 1.0;
        return i % 2 ? y.relu() : y.neg();
      },
      eager);
  for (i = 0; i < 6; ++i) f(full({2}, 64));
  EXPECT_EQ(numbers(state), (std::vector<float>{63, 63}));
  EXPECT_EQ(move.n_called, 1);
  EXPECT_EQ(f.stats().compiles, 2);
}

TEST(OpUnits, AreTakenInSegmentsAndOnATapeOfTheBody) {
  for (bool is_cut : {true, false}) {
    Move move;
    Tensor state = zeros({2}), weight = ones({2}).requires_grad_();
    auto f = compile(
        [&](const Tensor& x) {
          weight.set_grad({});
          (weight * x).sum().backward();
          move(state, weight.grad());
          return state * 1.0;
        },
        {.backend = "eager", .fullgraph = !is_cut});
    for (int i = 0; i < 5; ++i) f(full({2}, 32));
    EXPECT_EQ(numbers(state), (std::vector<float>{31, 31}));
    EXPECT_EQ(move.n_called, 1) << is_cut;
  }
}

TEST(OpUnits, ThatReadOtherTensorsAreLookedAt) {
  uint64_t number = new_op_unit_number();
  Tensor state = zeros({2}), hidden = ones({2});
  int n_called = 0;
  auto f = compile(
      [&](const Tensor& x) {
        NoGradGuard no_grad;
        const Tensor* tensors[] = {&state};
        OpUnit unit(number, tensors);
        n_called += !unit.is_done();
        if (!unit.is_done()) state.add_(hidden);
        return x + 1.0;
      },
      eager);
  for (int i = 0; i < 4; ++i) f(ones({2}));
  EXPECT_EQ(n_called, 4);
  EXPECT_EQ(numbers(state), (std::vector<float>{4, 4}));
}

TEST(OpUnits, AreLookedAtUnderAutocast) {
  Move move;
  Tensor state = zeros({2});
  int i = 0;
  auto f = compile(
      [&](const Tensor& x) {
        std::optional<AutocastGuard> types;
        if (i % 2) types.emplace(AutocastOptions{});
        move(state, x);
        return x + 1.0;
      },
      eager);
  for (i = 0; i < 4; ++i) f(full({2}, 16));
  EXPECT_EQ(move.n_called, 3);
  EXPECT_EQ(numbers(state), (std::vector<float>{15, 15}));
}

}  // namespace
}  // namespace tenon
