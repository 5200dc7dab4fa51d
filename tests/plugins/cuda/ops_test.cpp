// Ops on tensors of a device, and what they say where nothing can run them.
#include "device_work.h"

#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using testing::HasSubstr;

TEST(CudaOps, WithoutAKernelNameOpDeviceAndCure) {
  Tensor x = moved(gpu, ones({2}));
  std::string why = error_of([&] { x + x; });
  EXPECT_THAT(why, HasSubstr("aten.add.Tensor cannot run on cuda:0"));
  EXPECT_THAT(why, HasSubstr("compiler.device_fallback"));
}

TEST(CudaOps, OfTwoDevicesAreRefusedByName) {
  TENON_NEEDS_TWO_GPUS();
  WithFallback fallback;
  Tensor x = moved(gpu, ones({2}));
  EXPECT_THAT(error_of([&] { x + ones({2}); }),
              HasSubstr("aten.add.Tensor: its tensors are on cuda:0 and cpu"));
  EXPECT_THAT(error_of([&] { x + moved(second_gpu, ones({2})); }),
              HasSubstr("on cuda:0 and cuda:1"));
}

TEST(CudaOps, TakeCpuTensorsWithoutDimensionsAsNumbers) {
  WithFallback fallback;
  Tensor x = moved(gpu, ones({2})), two = full({}, 2.0);
  EXPECT_EQ((x * two).device(), gpu);
  EXPECT_EQ((two * x).device(), gpu);
  EXPECT_EQ((two * x).to_vector<float>(), (std::vector<float>{2, 2}));
}

TEST(CudaOps, RunOnTheCpuWhereThatIsAllowed) {
  WithFallback fallback;
  int64_t before = counters()["device.fallbacks"];
  Tensor a = randn({4, 5}), b = randn({5, 3});
  // The vendor's library may multiply.
  EXPECT_TRUE(allclose(to_cpu(matmul(moved(gpu, a), moved(gpu, b))), matmul(a, b)));
  EXPECT_TRUE(equal(to_cpu(softmax(moved(gpu, a), -1)), softmax(a, -1)));
  EXPECT_GT(counters()["device.fallbacks"], before);
}

TEST(CudaOps, WriteInPlaceAndIntoOutArguments) {
  WithFallback fallback;
  Tensor x = moved(gpu, ones({3})), same = x;
  uint64_t version = x.version();
  x.add_(1.0);
  x.mul_(3.0);
  EXPECT_TRUE(x.is_same(same));
  EXPECT_GT(x.version(), version);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{6, 6, 6}));
  x.fill_(2.0);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{2, 2, 2}));
  Tensor view = x.slice(0, 1);
  view.zero_();
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{2, 0, 0}));
}

TEST(CudaOps, ChangeMetadataInPlace) {
  Tensor x = moved(gpu, arange(6).reshape({2, 3}));
  x.t_();
  EXPECT_EQ(x.size(0), 3);
  EXPECT_EQ(x.device(), gpu);
  x.unsqueeze_(0);
  EXPECT_EQ(x.dim(), 3);
}

TEST(CudaOps, GiveListsAndSeveralResults) {
  WithFallback fallback;
  Tensor x = randn({4, 6});
  auto parts = moved(gpu, x).split(2, 1);
  EXPECT_EQ(parts.size(), 3u);
  EXPECT_TRUE(equal(to_cpu(parts[1]), x.slice(1, 2, 4)));
  auto [values, indices] = topk(moved(gpu, x), 2);
  EXPECT_EQ(indices.device(), gpu);
  EXPECT_TRUE(equal(to_cpu(values), std::get<0>(topk(x, 2))));
}

TEST(CudaOps, HaveGradients) {
  WithFallback fallback;
  Tensor x = randn({3, 4}), w = randn({4, 2});
  auto here = gradients_of_a_product(kCPU, x, w), there = gradients_of_a_product(gpu, x, w);
  EXPECT_LT(furthest(here.first, there.first), 1e-6);
  EXPECT_LT(furthest(here.second, there.second), 1e-6);
}

TEST(CudaOps, GradientsCrossTheBorderOfACopy) {
  WithFallback fallback;
  Tensor x = randn({3});
  x.requires_grad_();
  (moved(gpu, x) * moved(gpu, full({3}, 2.0))).sum().backward();
  EXPECT_EQ(x.grad().device(), kCPU);
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{2, 2, 2}));
}

TEST(CudaOps, TrainANetworkThere) {
  WithFallback fallback;
  EXPECT_NEAR(loss_of_training(kCPU), loss_of_training(gpu), 1e-6);
}

}  // namespace
}  // namespace tenon
