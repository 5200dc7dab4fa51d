// Eager ops on a device as compiled graphs of one node. The plugin test_cuda_ops compiles them, to
// kernels that the double of the driver runs by the host's own kernels.
#include "backend/backend.h"
#include "config/config.h"
#include "device_work.h"
#include "ops/op_table.h"

#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tenon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

int64_t compiles() { return counters()["device.single_op_compiles"]; }
int64_t fallbacks() { return counters()["device.fallbacks"]; }

class SingleOp : public testing::Test {
 protected:
  void SetUp() override {
    TENON_NEEDS_THE_DOUBLE();
    forget_single_ops();
  }
};

/// f of CPU tensors and of the same on the device give the same bits.
template <class F, class... T>
void expect_same(F&& f, const T&... inputs) {
  Tensor here = f(inputs...), there = f(moved(gpu, inputs)...);
  EXPECT_EQ(there.device(), gpu);
  EXPECT_EQ(to_text(there.strides()), to_text(here.strides()));
  EXPECT_TRUE(equal(to_cpu(there), here)) << to_text(here);
}

TEST_F(SingleOp, ComputesOnTheDeviceWithoutAFallback) {
  Tensor x = randn({3, 4}), y = randn({3, 4});
  int64_t before = fallbacks();
  expect_same([](Tensor a, Tensor b) { return a * b; }, x, y);
  expect_same([](Tensor a) { return a.tanh(); }, x);
  expect_same([](Tensor a) { return a.sum(1); }, x);
  expect_same([](Tensor a) { return softmax(a, -1); }, x);
  expect_same([](Tensor a, Tensor b) { return matmul(a, b.t()); }, x, y);
  expect_same([](Tensor a, Tensor b) { return cat({a, b}, 1); }, x, y);
  expect_same([](Tensor a, Tensor b) { return where(a > 0, a, b); }, x, y);
  EXPECT_EQ(fallbacks(), before);
}

TEST_F(SingleOp, OneGraphServesAllSizesOfAKind) {
  auto product = [](IntList sizes) {
    expect_same([](Tensor a, Tensor b) { return a * b; }, randn(sizes), randn(sizes));
  };
  int64_t before = compiles();
  product({3, 4});
  EXPECT_EQ(compiles(), before + 1);
  product({5, 7});
  product({100, 2});
  EXPECT_EQ(compiles(), before + 1);
  product({6, 6});  // equal sizes are one number
  product({9, 9});
  EXPECT_EQ(compiles(), before + 2);
  product({1, 5});
  EXPECT_EQ(compiles(), before + 3);
}

TEST_F(SingleOp, EachLayoutHasItsOwnGraph) {
  Tensor x = randn({4, 6});
  auto twice = [](Tensor a) { return a.exp(); };
  int64_t before = compiles();
  expect_same(twice, x);
  Tensor there = moved(gpu, x);
  auto compare = [&](auto&& view) {
    EXPECT_TRUE(equal(to_cpu(twice(view(there))), twice(view(x))));
  };
  compare([](Tensor t) { return t.t(); });
  EXPECT_EQ(compiles(), before + 2);
  compare([](Tensor t) { return t.slice(1, 0, 5); });
  EXPECT_EQ(compiles(), before + 3);
  compare([](Tensor t) { return t.slice(1, 0, 3); });  // another stride, the same graph
  EXPECT_EQ(compiles(), before + 3);
  compare([](Tensor t) { return t.select(0, 1).expand({3, 6}); });
  EXPECT_EQ(compiles(), before + 4);
}

TEST_F(SingleOp, AnAddressOffTheBorderOfSixteenBytesIsAKindOfItsOwn) {
  Tensor x = randn({9}), there = moved(gpu, x);
  int64_t before = compiles();
  EXPECT_TRUE(equal(to_cpu(there.slice(0, 1).exp()), x.slice(0, 1).exp()));
  EXPECT_TRUE(equal(to_cpu(there.slice(0, 4).exp()), x.slice(0, 4).exp()));
  EXPECT_EQ(compiles(), before + 2);
}

TEST_F(SingleOp, ATensorThatIsThereTwiceIsTwoOperands) {
  Tensor x = moved(gpu, full({3}, 3.0)), y = moved(gpu, full({3}, 5.0));
  EXPECT_EQ((x * x).to_vector<float>(), std::vector<float>(3, 9));
  EXPECT_EQ((x * y).to_vector<float>(), std::vector<float>(3, 15));
}

TEST_F(SingleOp, FloatingNumbersAreHandedOverAtTheCall) {
  Tensor x = moved(gpu, ones({3}));
  int64_t before = compiles();
  for (double factor : {0.37, 0.38, -7.25, 1e30})
    EXPECT_EQ((x * factor).to_vector<float>(), std::vector<float>(3, static_cast<float>(factor)));
  EXPECT_EQ(compiles(), before + 1);
  EXPECT_EQ((x * 2.0).to_vector<float>(), std::vector<float>(3, 2.0f));
  EXPECT_EQ(compiles(), before + 2) << "plain numbers are in the graph";
}

TEST_F(SingleOp, InPlaceFormsWriteWhereTheyAre) {
  Tensor x = randn({4, 3}), there = moved(gpu, x), same = there;
  uint64_t version = there.version();
  there.mul_(0.37).add_(there);
  x.mul_(0.37).add_(x);
  EXPECT_TRUE(there.is_same(same));
  EXPECT_EQ(there.version(), version + 2);
  EXPECT_TRUE(equal(to_cpu(there), x));
  there.slice(1, 1, 3).exp_();
  x.slice(1, 1, 3).exp_();
  EXPECT_TRUE(equal(to_cpu(there), x)) << "what lies between the elements stays";
  there.t().add_(moved(gpu, ones({3, 4})));
  x.t().add_(ones({3, 4}));
  EXPECT_TRUE(equal(to_cpu(there), x));
}

TEST_F(SingleOp, InPlaceFormsThatReadOtherPlacesOfSelfAreSafe) {
  Tensor x = arange(8).to(Dtype::f32), there = moved(gpu, x);
  there.slice(0, 0, 7).add_(there.slice(0, 1, 8));
  x.slice(0, 0, 7).add_(x.slice(0, 1, 8));
  EXPECT_TRUE(equal(to_cpu(there), x));
  Tensor square = randn({3, 3}), square_there = moved(gpu, square);
  square_there.mul_(square_there.t());
  square.mul_(square.t());
  EXPECT_TRUE(equal(to_cpu(square_there), square));
}

TEST_F(SingleOp, InPlaceFormsCastToSelf) {
  Tensor x = ones({3}).to(Dtype::bf16), there = moved(gpu, x);
  Tensor y = randn({3});
  there.add_(moved(gpu, y));
  x.add_(y);
  EXPECT_TRUE(equal(to_cpu(there), x));
  Tensor whole = moved(gpu, arange(3));
  EXPECT_THAT(error_of([&] { whole.add_(moved(gpu, y)); }), HasSubstr("cannot be stored in self"));
}

TEST_F(SingleOp, CopiesOfOtherLayoutsAndTypesStayOnTheDevice) {
  Tensor x = randn({4, 6}), there = moved(gpu, x);
  int64_t before = compiles();
  EXPECT_TRUE(equal(to_cpu(there.t().contiguous()), x.t().contiguous()));
  EXPECT_TRUE(equal(to_cpu(there.to(Dtype::f64)), x.to(Dtype::f64)));
  Tensor rows = moved(gpu, zeros({4, 6}));
  rows.copy_(there.select(0, 2));
  EXPECT_TRUE(equal(to_cpu(rows), x.select(0, 2).expand({4, 6}).contiguous()));
  EXPECT_EQ(compiles(), before + 3);
}

TEST_F(SingleOp, WrongArgumentsAreToldOfInTheWordsOfTheOp) {
  Tensor a = moved(gpu, ones({2, 3})), b = moved(gpu, ones({4, 3}));
  EXPECT_EQ(error_of([&] { a + b; }), error_of([&] { ones({2, 3}) + ones({4, 3}); }));
  EXPECT_EQ(error_of([&] { matmul(a, b); }), error_of([&] { matmul(ones({2, 3}), ones({4, 3})); }));
}

TEST_F(SingleOp, EmptyTensorsAndTensorsWithoutDimensionsAreComputed) {
  expect_same([](Tensor a) { return a.exp(); }, zeros({0, 3}));
  expect_same([](Tensor a) { return a.sum(); }, zeros({0, 3}));
  expect_same([](Tensor a) { return a.exp(); }, full({}, 2.0));
  expect_same([](Tensor a, Tensor b) { return a * b; }, full({}, 2.0), randn({2, 2}));
}

TEST_F(SingleOp, CpuNumbersAndIndicesAreBroughtThere) {
  Tensor x = moved(gpu, arange(6).reshape({3, 2}).to(Dtype::f32));
  EXPECT_EQ((x * full({}, 2.0)).sum().item<float>(), 30.0f);
  Tensor rows = index(x, {tensor({2, 0}).to(Dtype::i64)});
  EXPECT_EQ(rows.device(), gpu);
  EXPECT_EQ(rows.to_vector<float>(), (std::vector<float>{4, 5, 0, 1}));
}

TEST_F(SingleOp, ListsAndSeveralResultsComeBackInOrder) {
  Tensor x = randn({4, 6});
  auto [values, indices] = topk(moved(gpu, x), 2);
  EXPECT_TRUE(equal(to_cpu(values), std::get<0>(topk(x, 2))));
  EXPECT_TRUE(equal(to_cpu(indices), std::get<1>(topk(x, 2))));
}

TEST_F(SingleOp, GradientsAreComputedThere) {
  Tensor x = randn({3, 4}), w = randn({4, 2});
  int64_t before = fallbacks();
  auto here = gradients_of_a_product(kCPU, x, w), there = gradients_of_a_product(gpu, x, w);
  EXPECT_LT(furthest(here.first, there.first), 1e-5);
  EXPECT_LT(furthest(here.second, there.second), 1e-5);
  EXPECT_EQ(fallbacks(), before);
}

TEST_F(SingleOp, ANetworkIsTrainedAsOnTheCpu) {
  int64_t before = fallbacks();
  EXPECT_NEAR(loss_of_training(kCPU), loss_of_training(gpu), 1e-6);
  EXPECT_EQ(fallbacks(), before);
  int64_t known = compiles();
  loss_of_training(gpu);
  EXPECT_EQ(compiles(), known) << "a second training meets known kernels only";
}

TEST_F(SingleOp, BatchNormUpdatesItsStatisticsThere) {
  Tensor x = randn({6, 3, 2, 2});
  auto statistics = [&](Device device) {
    nn::BatchNorm2d norm(3);
    norm.to(device);
    Tensor y = norm(moved(device, x));
    return to_cpu(cat({Tensor(norm.running_mean), Tensor(norm.running_var), y.reshape({-1})}));
  };
  int64_t before = fallbacks();
  EXPECT_LT(furthest(statistics(kCPU), statistics(gpu)), 1e-6);
  EXPECT_EQ(fallbacks(), before);
}

TEST_F(SingleOp, RandomNumbersAreThoseOfTheCpu) {
  Tensor p = full({100}, 0.25);
  auto drawn = [&](Device device) {
    manual_seed(11);
    Tensor x = moved(device, p);
    return to_cpu(cat({bernoulli(x), rand_like(x), x.clone().uniform_(), dropout(x, 0.5, true)}));
  };
  EXPECT_TRUE(equal(drawn(kCPU), drawn(gpu)));
}

TEST_F(SingleOp, KernelsOfPluginsForTheDeviceComeFirst) {
  Tensor x = rand({3, 4}) + 1;
  int64_t before = compiles();
  expect_same([](Tensor a) { return digamma(a); }, x);
  EXPECT_EQ(compiles(), before);
}

TEST_F(SingleOp, StreamsAreTheCallersInEveryOrder) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    seed_streams(seed);
    Stream side(gpu);
    Tensor x = moved(gpu, full({64}, 3.0));
    Event ready(gpu);
    ready.record(Stream::current(gpu));
    StreamGuard on(side);
    side.wait(ready);
    Tensor y = (x * 0.5 + x).exp();
    record_stream(x, side);
    EXPECT_NEAR(static_cast<double>(y.select(0, 7).item<float>()), std::exp(4.5), 1e-3)
        << "seed " << seed;
  }
}

// ctest runs it with TENON_TEST_DECLINE=aten.tanh.default,numbers.
TEST(SingleOpDeclined, WhatABackendDeclinesGoesTheNextWay) {
  TENON_NEEDS_THE_DOUBLE();
  Tensor x = moved(gpu, ones({3}));
  int64_t before = compiles();
  std::string why = error_of([&] { x.tanh(); });
  EXPECT_THAT(
      why, AllOf(HasSubstr("aten.tanh.default cannot run on cuda:0"),
                 HasSubstr("the plugin test_cuda_ops declined it"),
                 HasSubstr("aten.tanh.default is listed"), HasSubstr("compiler.device_fallback")));
  EXPECT_EQ(compiles(), before + 1);
  error_of([&] { moved(gpu, ones({4, 5})).tanh(); });
  EXPECT_EQ(compiles(), before + 1) << "it is remembered by op and dtype";
  EXPECT_EQ((x * 0.37).to_vector<float>(), std::vector<float>(3, 0.37f));
  EXPECT_EQ((x * 0.38).to_vector<float>(), std::vector<float>(3, 0.38f));
  EXPECT_EQ(compiles(), before + 4) << "numbers are in the graphs where nobody takes them open";
  WithFallback fallback;
  EXPECT_EQ(x.tanh().to_vector<float>(), std::vector<float>(3, std::tanh(1.0f)));
}

}  // namespace
}  // namespace tenon
