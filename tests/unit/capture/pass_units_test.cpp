// Backward passes of whole steps: when a followed run takes one as a unit, and what it leaves.
#include "core/op_unit.h"
#include "unit/capture/short.h"

#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace tenon {
namespace {

const Options one_graph{.backend = "eager", .fullgraph = true};

/// Counts the units that followed runs take.
class PassUnits : public testing::Test {
 protected:
  PassUnits() {
    n_taken = 0;
    take = std::exchange(take_op_unit_slot, [](OpUnit& unit) {
      bool is_taken = take(unit);
      n_taken += is_taken;
      return is_taken;
    });
  }
  ~PassUnits() override { take_op_unit_slot = take; }

  static inline bool (*take)(OpUnit&) = nullptr;
  static inline int n_taken = 0;

  Tensor w = row({1, 2}).requires_grad_();
};

TEST_F(PassUnits, AreTakenFromTheSecondCallOn) {
  auto f = compile(
      [&](const Tensor& x) {
        w.set_grad({});
        (w * x).relu().sum().backward();
        return w.grad() * 1.0;
      },
      one_graph);
  for (float i : {1, 2, 3, 4}) {
    EXPECT_EQ(values(f(row({i, -i}))), (std::vector<float>{i, 0}));
    EXPECT_EQ(values(w.grad()), (std::vector<float>{i, 0}));
  }
  EXPECT_EQ(n_taken, 3);
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST_F(PassUnits, ServeEverySize) {
  Tensor scale = row({2}).requires_grad_();
  auto f = compile(
      [&](const Tensor& x) {
        scale.set_grad({});
        (x * scale).mean().backward();
        return scale.grad() * 1.0;
      },
      one_graph);
  for (int64_t n : {4, 2, 8, 16, 32}) EXPECT_EQ(values(f(ones({n}))), (std::vector<float>{1}));
  EXPECT_EQ(f.stats().compiles, 2);
  EXPECT_EQ(n_taken, 3);
}

TEST_F(PassUnits, AddToGradientsOfEarlierCalls) {
  auto f = compile(
      [&](const Tensor& x) {
        (w * x).sum().backward();
        return x + 1.0;
      },
      one_graph);
  for (int i = 0; i < 6; ++i) f(row({1, 2}));
  EXPECT_EQ(values(w.grad()), (std::vector<float>{6, 12}));
  EXPECT_GE(n_taken, 3);
}

TEST_F(PassUnits, AreSeveralInABody) {
  Tensor v = row({1, 1}).requires_grad_();
  auto f = compile(
      [&](const Tensor& x) {
        w.set_grad({}), v.set_grad({});
        Tensor shared = w * v, loss = (shared * x).sum();
        loss.backward({}, true);
        loss.backward();
        (v * v).sum().backward();
        return v.grad() + w.grad();
      },
      one_graph);
  for (float i : {1, 2, 3}) {
    EXPECT_EQ(values(f(row({i, i}))), (std::vector<float>{2 * i + 2 + 2 * i, 4 * i + 2 + 2 * i}));
    EXPECT_EQ(values(w.grad()), (std::vector<float>{2 * i, 2 * i}));
  }
  EXPECT_EQ(n_taken, 6);
}

TEST_F(PassUnits, AreLookedAtWhereANumberIsAnother) {
  double factor = 1;
  auto f = compile(
      [&](const Tensor& x) {
        w.set_grad({});
        (w * x * factor).sum().backward();
        return w.grad() * 1.0;
      },
      one_graph);
  for (factor = 1; factor < 7; ++factor) {
    auto i = static_cast<float>(factor);
    EXPECT_EQ(values(f(row({1, 2}))), (std::vector<float>{i, 2 * i}));
  }
  EXPECT_EQ(n_taken, 0);
  EXPECT_LE(f.stats().compiles, 3);
}

TEST_F(PassUnits, AreLookedAtWhereALeafHasAHook) {
  std::optional<autograd::HookHandle> hook;
  int n_hooks = 0;
  auto f = compile(
      [&](const Tensor& x) {
        w.set_grad({});
        (w * x).sum().backward();
        return w.grad() * 1.0;
      },
      one_graph);
  for (int i = 0; i < 6; ++i) {
    if (i == 2)
      hook = autograd::register_hook(w, [&](const Tensor& g) { return ++n_hooks, g * 2.0; });
    if (i == 4) hook->remove();
    float factor = i == 2 || i == 3 ? 2 : 1;
    EXPECT_EQ(values(f(row({1, 2}))), (std::vector<float>{factor, 2 * factor})) << i;
  }
  EXPECT_EQ(n_hooks, 2);
  EXPECT_EQ(n_taken, 3) << "calls 1, 4 and 5";
}

TEST_F(PassUnits, ThatFailAreCalled) {
  int n_failed = 0;
  auto f = compile(
      [&](const Tensor& x) {
        Tensor loss = (w * x).square().sum();
        loss.backward();
        try {
          loss.backward();
        } catch (const Error&) {
          ++n_failed;
        }
        return x + 1.0;
      },
      one_graph);
  for (int i = 0; i < 4; ++i) f(row({1, 2}));
  EXPECT_EQ(n_failed, 4);
}

TEST_F(PassUnits, AreLookedAtWhereAWeightIsFrozen) {
  Tensor v = row({1, 1}).requires_grad_();
  auto f = compile(
      [&](const Tensor& x) {
        w.set_grad({}), v.set_grad({});
        (w * x + v).sum().backward();
        return x + 1.0;
      },
      one_graph);
  for (int i = 0; i < 6; ++i) {
    v.requires_grad_(i % 3 != 2);
    f(row({1, 2}));
    EXPECT_EQ(v.grad().defined(), i % 3 != 2) << i;
    EXPECT_EQ(values(w.grad()), (std::vector<float>{1, 2}));
  }
}

TEST_F(PassUnits, StayWhereTheirStepsAreRecordedAgain) {
  int i = 0;
  auto f = compile(
      [&](const Tensor& x) {
        w.set_grad({});
        (w * x).sum().backward();
        return i % 2 ? w.grad().exp() : w.grad().neg();
      },
      one_graph);
  for (i = 0; i < 8; ++i) f(row({1, 2}));
  EXPECT_EQ(f.stats().compiles, 2);
  EXPECT_EQ(n_taken, 7);
}

TEST_F(PassUnits, FreeTheTape) {
  auto f = compile(
      [&](const Tensor& x) {
        Tensor loss = (w * x).square().sum();
        loss.backward();
        loss.backward();
        return x + 1.0;
      },
      one_graph);
  for (int i = 0; i < 3; ++i) EXPECT_THROW(f(row({1, 2})), Error);
}

}  // namespace
}  // namespace tenon
