// The default device: which tensors it is for, and what knows of it.
#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <thread>

namespace tenon {
namespace {

const Device elsewhere{DeviceType::meta};

TEST(DefaultDevice, IsWhereFactoriesMakeTensors) {
  Tensor like = zeros({2});
  DefaultDevice there(elsewhere);
  EXPECT_EQ(zeros({2}).device(), elsewhere);
  EXPECT_EQ(arange(5).device(), elsewhere);
  EXPECT_EQ(randn({2, 2}).device(), elsewhere);
  EXPECT_EQ(tensor({1.0f, 2.0f}).device(), elsewhere);
  EXPECT_EQ(tensor(3.0).device(), elsewhere);
  EXPECT_EQ(nn::Linear(2, 3).weight.device(), elsewhere);
  EXPECT_EQ(zeros({2}, Dtype::f32, {}, kCPU).device(), kCPU) << "it is named";
  EXPECT_EQ(zeros_like(like).device(), kCPU) << "it is like another one";
  EXPECT_EQ((like + 1.0).device(), kCPU);
}

TEST(DefaultDevice, EndsWithItsScopeAndIsTheThreads) {
  {
    DefaultDevice there(elsewhere);
    EXPECT_EQ(default_device(), elsewhere);
    std::thread([] { EXPECT_EQ(zeros({2}).device(), kCPU); }).join();
    DefaultDevice back(kCPU);
    EXPECT_EQ(zeros({2}).device(), kCPU);
  }
  EXPECT_EQ(default_device(), kCPU);
  EXPECT_EQ(zeros({2}).device(), kCPU);
}

TEST(DefaultDevice, IsSeenByCompiledFunctions) {
  for (bool is_pure : {false, true}) {
    auto f = compile([] { return ones({2}) * 2.0; }, Options{.backend = "eager", .pure = is_pure});
    EXPECT_EQ(f().device(), kCPU);
    {
      DefaultDevice there(elsewhere);
      EXPECT_EQ(f().device(), elsewhere);
    }
    EXPECT_EQ(f().device(), kCPU);
    EXPECT_EQ(f.stats().compiles, 2);
  }
}

TEST(DefaultDevice, IsOneThatIsThere) {
  EXPECT_THROW(set_default_device(Device(DeviceType::cuda, 77)), Error);
  EXPECT_EQ(default_device(), kCPU);
  EXPECT_EQ(zeros({2}).device(), kCPU);
}

}  // namespace
}  // namespace tenon
