// Autocast on a device: PyTorch's list for CUDA, a setting of its own beside that of the CPU.
#include "ops/modes/autocast.h"
#include "device_work.h"
#include "ops/op_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tenon {
namespace {

using testing::HasSubstr;

constexpr AutocastOptions on_gpu{.device = DeviceType::cuda, .dtype = Dtype::bf16};

class SingleOpAutocast : public testing::Test {
 protected:
  void SetUp() override { TENON_NEEDS_THE_DOUBLE(); }
  Tensor here = randn({4, 4}), there = moved(gpu, here);
};

TEST_F(SingleOpAutocast, TheListNamesOpsThatThereAre) {
  std::set<std::string> seen;
  for (const CudaCastRow& row : cuda_cast_list()) {
    EXPECT_NE(find_op(row.op), nullptr) << row.op;
    EXPECT_TRUE(seen.insert(row.op).second) << row.op;
  }
  EXPECT_EQ(cast_on_cuda(*find_op("aten.mm.default")), CudaCast::lower);
  EXPECT_EQ(cast_on_cuda(*find_op("aten.relu.default")), CudaCast::none);
}

TEST_F(SingleOpAutocast, EachTypeOfDeviceHasItsOwnSetting) {
  AutocastGuard guard(on_gpu);
  EXPECT_EQ(there.mm(there).dtype(), Dtype::bf16);
  EXPECT_EQ(here.mm(here).dtype(), Dtype::f32);
  {
    AutocastGuard both({.dtype = Dtype::f16});
    EXPECT_EQ(there.mm(there).dtype(), Dtype::bf16);
    EXPECT_EQ(here.mm(here).dtype(), Dtype::f16);
    AutocastGuard off({.device = DeviceType::cuda, .enabled = false});
    EXPECT_EQ(there.mm(there).dtype(), Dtype::f32);
    EXPECT_EQ(here.mm(here).dtype(), Dtype::f16);
  }
  EXPECT_EQ(there.mm(there).dtype(), Dtype::bf16);
  EXPECT_EQ(here.mm(here).dtype(), Dtype::f32);
}

TEST_F(SingleOpAutocast, ComputesWhatTheCastsByHandCompute) {
  Tensor low = there.to(Dtype::bf16);
  Tensor product, loss, total;
  {
    AutocastGuard guard(on_gpu);
    product = there.mm(there);
    loss = mse_loss(low, low.neg());
    total = low.exp();
  }
  EXPECT_TRUE(equal(to_cpu(product), to_cpu(low.mm(low))));
  EXPECT_EQ(loss.dtype(), Dtype::f32);
  EXPECT_EQ(total.dtype(), Dtype::f32);
  EXPECT_TRUE(equal(to_cpu(total), to_cpu(low.to(Dtype::f32).exp())));
}

TEST_F(SingleOpAutocast, SumsAreInF32UnlessTheCallNamesItsType) {
  Tensor low = there.to(Dtype::bf16), whole = moved(gpu, arange(4));
  AutocastGuard guard(on_gpu);
  EXPECT_EQ(low.sum().dtype(), Dtype::f32);
  EXPECT_EQ(softmax(low, -1).dtype(), Dtype::f32);
  EXPECT_EQ(softmax(low, -1, Dtype::bf16).dtype(), Dtype::bf16);
  EXPECT_EQ(whole.sum().dtype(), Dtype::i64);
  EXPECT_EQ(there.to(Dtype::f64).exp().dtype(), Dtype::f64);
  EXPECT_EQ(low.relu().dtype(), Dtype::bf16);
}

TEST_F(SingleOpAutocast, TheWidestTypeCountsForWhatJoins) {
  Tensor low = there.to(Dtype::bf16);
  AutocastGuard guard(on_gpu);
  EXPECT_EQ(cat({low, there}).dtype(), Dtype::f32);
  EXPECT_EQ(cat({low, low}).dtype(), Dtype::bf16);
  EXPECT_EQ(addcmul(there, low, low).dtype(), Dtype::f32);
}

TEST_F(SingleOpAutocast, BinaryCrossEntropyIsRefused) {
  Tensor p = moved(gpu, full({3}, 0.5)), y = moved(gpu, ones({3}));
  AutocastGuard guard(on_gpu);
  EXPECT_THAT(error_of([&] { binary_cross_entropy(p, y); }),
              HasSubstr("binary_cross_entropy_with_logits"));
  EXPECT_EQ(binary_cross_entropy(to_cpu(p), to_cpu(y)).dtype(), Dtype::f32);
  EXPECT_EQ(binary_cross_entropy_with_logits(p, y).dtype(), Dtype::f32);
}

TEST_F(SingleOpAutocast, GradientsHaveTheTypesOfTheLeaves) {
  Tensor w = moved(gpu, randn({4, 2})).requires_grad_();
  Tensor loss;
  {
    AutocastGuard guard(on_gpu);
    loss = mse_loss(there.mm(w), moved(gpu, ones({4, 2})));
  }
  loss.backward();
  EXPECT_EQ(w.grad().dtype(), Dtype::f32);
  EXPECT_EQ(w.grad().device(), gpu);
  Tensor v = w.detach().clone().requires_grad_();
  mse_loss(there.to(Dtype::bf16).mm(v.to(Dtype::bf16)).to(Dtype::f32), moved(gpu, ones({4, 2})))
      .backward();
  EXPECT_TRUE(equal(to_cpu(w.grad()), to_cpu(v.grad())));
}

TEST_F(SingleOpAutocast, CompiledFunctionsFollowTheSettingOfTheirDevice) {
  auto product = compile([](const Tensor& x) { return x.mm(x); }, {.backend = "aot_eager"});
  EXPECT_EQ(product(there).dtype(), Dtype::f32);
  {
    AutocastGuard guard(on_gpu);
    EXPECT_EQ(product(there).dtype(), Dtype::bf16);
    EXPECT_EQ(product(here).dtype(), Dtype::f32);
  }
  EXPECT_EQ(product(there).dtype(), Dtype::f32);
}

TEST_F(SingleOpAutocast, OtherDevicesAreRefused) {
  EXPECT_THAT(error_of([] { AutocastGuard guard({.device = DeviceType::meta}); }),
              HasSubstr("expected device cpu or cuda, found meta"));
  EXPECT_FALSE(is_autocast_enabled());
}

}  // namespace
}  // namespace tenon
