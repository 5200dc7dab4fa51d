// Scaled losses: the scale's way up and down, what is left out, what is refused.
#include "unit/nn/nn_test.h"

#include <tenon/grad_scaler.h>

namespace tenon {
namespace {

using amp::GradScaler;

struct Fit {
  nn::Linear net{2, 1};
  optim::SGD opt{net.parameters(), {.lr = 0.125}};

  void backward(GradScaler& scaler, double input = 1) {
    opt.zero_grad();
    scaler.scale(net(full({1, 2}, input)).sum()).backward();
  }
  bool round(GradScaler& scaler, double input = 1) {
    backward(scaler, input);
    bool stepped = scaler.step(opt);
    scaler.update();
    return stepped;
  }
};

const double infinite = std::numeric_limits<double>::infinity();

TEST(GradScalers, GrowAndBackOffAsInPyTorch) {
  Fit fit;
  GradScaler scaler({.init_scale = 8, .growth_interval = 2});
  std::vector<double> scales;
  std::vector<bool> stepped;
  for (double input : {1.0, 1.0, 1.0, infinite, 1.0, 1.0}) {
    stepped.push_back(fit.round(scaler, input));
    scales.push_back(scaler.get_scale());
  }
  EXPECT_THAT(scales, ::testing::ElementsAre(8, 16, 16, 8, 8, 16));
  EXPECT_THAT(stepped, ::testing::ElementsAre(true, true, true, false, true, true));
}

TEST(GradScalers, DoNotGrowBeyondWhatAFloatHolds) {
  Fit fit;
  GradScaler scaler({.init_scale = std::ldexp(1.0, 127), .growth_interval = 1});
  EXPECT_TRUE(fit.round(scaler));
  EXPECT_EQ(scaler.get_scale(), std::ldexp(1.0, 127));
}

TEST(GradScalers, LeaveGradientsAsWithoutScale) {
  Fit fit;
  GradScaler scaler;
  fit.backward(scaler);
  scaler.unscale_(fit.opt);
  EXPECT_EQ(difference(fit.net.weight.grad(), ones({1, 2})), "");
  Tensor before = fit.net.weight.detach().clone();
  scaler.step(fit.opt);
  EXPECT_EQ(difference(fit.net.weight, before - 0.125), "");
}

TEST(GradScalers, LeaveOutOnlyTheOptimiserThatOverflows) {
  Fit good, bad;
  GradScaler scaler({.init_scale = 8});
  good.backward(scaler);
  bad.backward(scaler, infinite);
  EXPECT_FALSE(scaler.step(bad.opt));
  EXPECT_TRUE(scaler.step(good.opt));
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 4);
}

TEST(GradScalers, ThatAreOffChangeNothing) {
  Fit fit;
  GradScaler scaler({.enabled = false});
  Tensor loss = ones({});
  EXPECT_TRUE(scaler.scale(loss).is_same(loss));
  EXPECT_TRUE(fit.round(scaler, infinite));
  EXPECT_EQ(scaler.get_scale(), 1);
}

TEST(GradScalers, GoOnFromAState) {
  Fit fit;
  GradScaler first({.init_scale = 8, .growth_interval = 2}), second;
  fit.round(first);
  second.load_state_dict(first.state_dict());
  fit.round(second);
  EXPECT_EQ(second.get_scale(), 16) << "the second round since the scale was set";
  EXPECT_EQ(first.get_scale(), 8);
  EXPECT_EQ(message_of([&] { second.load_state_dict({}); }),
            "GradScaler: the state has no number backoff_factor");
}

TEST(GradScalers, RefuseCallsOutOfOrder) {
  Fit fit;
  GradScaler scaler;
  EXPECT_EQ(message_of([&] { scaler.update(); }),
            "GradScaler: update() was called before any step() or unscale_()");
  fit.backward(scaler);
  scaler.unscale_(fit.opt);
  EXPECT_EQ(message_of([&] { scaler.unscale_(fit.opt); }),
            "GradScaler: unscale_() was called already; call update() first");
  scaler.step(fit.opt);
  EXPECT_EQ(message_of([&] { scaler.unscale_(fit.opt); }),
            "GradScaler: unscale_() was called after step(); call update() first");
  EXPECT_EQ(message_of([&] { scaler.step(fit.opt); }),
            "GradScaler: step() was called already; call update()");
}

TEST(GradScalers, RefuseGradientsInHalfPrecision) {
  nn::Linear net(2, 1);
  net.to(Dtype::f16);
  optim::SGD opt(net.parameters());
  GradScaler scaler;
  scaler.scale(net(ones({1, 2}, Dtype::f16)).sum()).backward();
  EXPECT_EQ(message_of([&] { scaler.unscale_(opt); }),
            "GradScaler: expected gradients in f32, found f16[1, 2]; keep parameters in f32, and "
            "let an AutocastGuard cast them");
  EXPECT_EQ(message_of([] { GradScaler({.growth_factor = 0.5}); }),
            "GradScaler: expected a growth_factor above 1 and a backoff_factor in (0, 1), found "
            "0.5 and 0.5");
}

}  // namespace
}  // namespace tenon
