// Learning-rate schedules follow those of torch.optim.lr_scheduler.
#include "unit/nn/nn_test.h"

#include <tenon/optim.h>

namespace tenon {
namespace {

using namespace optim;  // NOLINT: the tests are about its names

const StateDict& recorded_schedules() {
  static const StateDict recorded = nn_recording("schedules");
  return recorded;
}

struct Rates {
  std::vector<double> lr, momentum;
};

// The rates before each of 20 steps.
template <class Make, class Step>
Rates rates_of(Make make, Step step) {
  SGD sgd({ones({1}).requires_grad_()}, {.lr = 0.5, .momentum = 0.9});
  auto schedule = make(sgd);
  Rates out;
  for (size_t i = 0; i < 20; ++i) {
    out.lr.push_back(sgd.lr);
    out.momentum.push_back(sgd.groups()[0].momentum);
    if (i < 19) step(*schedule, i);
  }
  return out;
}

template <class S, class... A>
Rates rates(A... arguments) {
  return rates_of([&](SGD& sgd) { return std::make_unique<S>(sgd, arguments...); },
                  [](S& schedule, size_t) { schedule.step(); });
}

Rates plateau(const PlateauOptions& options) {
  std::vector<double> metrics = recorded_schedules().at("metrics").to_vector<double>();
  return rates_of([&](SGD& sgd) { return std::make_unique<ReduceLROnPlateau>(sgd, options); },
                  [&](ReduceLROnPlateau& s, size_t i) { s.step(metrics[i]); });
}

void expect_recorded(const std::string& name, const std::vector<double>& found) {
  std::vector<double> expected = recorded_schedules().at(name).to_vector<double>();
  ASSERT_EQ(found.size(), expected.size()) << name;
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << name << i;
}

TEST(Schedules, FollowThoseOfPyTorch) {
  expect_recorded("step", rates<StepLR>(3, 0.5).lr);
  expect_recorded("multi_step", rates<MultiStepLR>(std::vector<int64_t>{2, 7, 7, 11}, 0.3).lr);
  expect_recorded("exponential", rates<ExponentialLR>(0.9).lr);
  expect_recorded("cosine", rates<CosineAnnealingLR>(8, 0.01).lr);
  expect_recorded("linear", rates<LinearLR>().lr);
  expect_recorded("linear_options", rates<LinearLR>(0.2, 0.7, 9).lr);
  expect_recorded("constant", rates<ConstantLR>(0.2, 4).lr);
  expect_recorded("polynomial", rates<PolynomialLR>(12, 2.0).lr);
  expect_recorded("warm_restarts", rates<CosineAnnealingWarmRestarts>(5, 1, 0.01).lr);
  expect_recorded("warm_restarts_longer", rates<CosineAnnealingWarmRestarts>(3, 2).lr);
}

// A run of four steps, and one that never ends.
TEST(Schedules, RunsLongerThanAnyCountDoNotEnd) {
  std::vector<double> lr = rates<CosineAnnealingWarmRestarts>(4, int64_t{1} << 62).lr;
  EXPECT_LT(lr[3], 0.25);
  for (size_t i = 4; i < lr.size(); ++i) EXPECT_NEAR(lr[i], 0.5, 1e-12);
}

TEST(Schedules, FollowOneAnother) {
  std::unique_ptr<LinearLR> warm_up;
  std::unique_ptr<CosineAnnealingLR> anneal;
  std::unique_ptr<ExponentialLR> fade;
  Rates found = rates_of(
      [&](SGD& sgd) {
        warm_up = std::make_unique<LinearLR>(sgd, 0.1, 1, 5);
        anneal = std::make_unique<CosineAnnealingLR>(sgd, 8, 0.01);
        fade = std::make_unique<ExponentialLR>(sgd, 0.8);
        return std::make_unique<SequentialLR>(
            sgd, std::vector<const Scheduler*>{warm_up.get(), anneal.get(), fade.get()},
            std::vector<int64_t>{5, 13});
      },
      [](SequentialLR& schedule, size_t) { schedule.step(); });
  expect_recorded("sequential", found.lr);
}

TEST(Schedules, OfAnotherOptimizerAreNotFollowed) {
  SGD sgd({ones({1}).requires_grad_()}), other({ones({1}).requires_grad_()});
  StepLR a(sgd, 3), b(other, 3);
  EXPECT_EQ(message_of([&] {
              SequentialLR s(sgd, {&a, &b}, {4});
            }),
            "SequentialLR: expected schedules of the same optimizer");
  EXPECT_EQ(message_of([&] { SequentialLR s(sgd, {&a}, {4}); }),
            "SequentialLR: expected one milestone between each two schedules, found 1 for 1");
}

TEST(OneCycle, MovesRateAndMomentumAgainstEachOther) {
  Rates one = rates<OneCycleLR>(OneCycleOptions{.max_lr = 1, .total_steps = 20});
  expect_recorded("one_cycle", one.lr);
  expect_recorded("one_cycle/momentum", one.momentum);
  Rates three = rates<OneCycleLR>(OneCycleOptions{.max_lr = 0.7,
                                                  .total_steps = 20,
                                                  .pct_start = 0.4,
                                                  .linear = true,
                                                  .div_factor = 10,
                                                  .final_div_factor = 100,
                                                  .three_phase = true});
  expect_recorded("one_cycle_three", three.lr);
  expect_recorded("one_cycle_three/momentum", three.momentum);
}

struct Momentum {
  double of_optimizer, pct_start;
};

// The optimizer's own momentum and rate play no part.
Rates one_cycle_of_ten(Momentum given, bool three_phase = false) {
  SGD sgd({ones({1}).requires_grad_()}, {.lr = 0.5, .momentum = given.of_optimizer});
  OneCycleLR schedule(sgd, {.max_lr = 1,
                            .total_steps = 10,
                            .pct_start = given.pct_start,
                            .linear = true,
                            .three_phase = three_phase});
  Rates out;
  for (int i = 0; i < 10; ++i) {
    if (i > 0) schedule.step();
    out.lr.push_back(sgd.lr);
    out.momentum.push_back(sgd.groups()[0].momentum);
  }
  return out;
}

TEST(OneCycle, SetsAMomentumThatEqualsTheOptimizers) {
  Rates other = one_cycle_of_ten({.of_optimizer = 0.9, .pct_start = 0.3});
  for (double equal : {0.85, 0.95})
    EXPECT_EQ(one_cycle_of_ten({equal, 0.3}).momentum, other.momentum) << equal;
}

TEST(OneCycle, BeginsAtThePeakWhereTheRiseHasNoLength) {
  for (bool three_phase : {false, true}) {
    Rates found = one_cycle_of_ten({.of_optimizer = 0.9, .pct_start = 0.1}, three_phase);
    EXPECT_DOUBLE_EQ(found.lr[0], 1);
    EXPECT_DOUBLE_EQ(found.momentum[0], 0.85);
    for (double rate : found.lr) EXPECT_TRUE(std::isfinite(rate));
  }
}

TEST(Plateaus, LowerTheRateWhenNothingGetsBetter) {
  expect_recorded("plateau", plateau({.factor = 0.5, .patience = 2, .min_lr = 0.1}).lr);
  expect_recorded("plateau_max", plateau({.maximize = true,
                                          .patience = 1,
                                          .threshold = 0.5,
                                          .absolute_threshold = true,
                                          .cooldown = 2})
                                     .lr);
}

TEST(Schedules, GoOnWhereARunHasStopped) {
  Tensor p = ones({1}).requires_grad_();
  SGD sgd({p}, {.lr = 0.5});
  CosineAnnealingLR schedule(sgd, 8);
  for (int i = 0; i < 3; ++i) schedule.step();
  SGD later({p}, {.lr = 0.5});
  CosineAnnealingLR resumed(later, 8);
  resumed.restart_at(3);
  EXPECT_EQ(resumed.get_last_lr(), schedule.get_last_lr());
}

TEST(ScheduleMessages, SayWhatIsWrong) {
  SGD sgd({ones({1}).requires_grad_()}, {.lr = 0.5});
  EXPECT_EQ(message_of([&] { StepLR(sgd, 0); }),
            "StepLR: expected step_size of 1 or more, found 0");
  EXPECT_EQ(message_of([&] { PolynomialLR(sgd, 5, -1); }),
            "PolynomialLR: expected a power of 0 or more, found -1");
  EXPECT_EQ(message_of([&] { OneCycleLR(sgd, {.total_steps = 5, .div_factor = 0}); }),
            "OneCycleLR: expected div_factor and final_div_factor above 0, found 0 and 10000");
  EXPECT_EQ(message_of([&] { OneCycleLR(sgd, {.total_steps = 5}); }),
            "OneCycleLR: cycle_momentum needs an optimizer with momentum; give it one, or say "
            "cycle_momentum = false");
  EXPECT_EQ(message_of([&] {
              OneCycleLR cycle(sgd, {.total_steps = 2, .cycle_momentum = false});
              cycle.step();
              cycle.step();
            }),
            "OneCycleLR: step 2 of 2: the cycle is over");
}

}  // namespace
}  // namespace tenon
