// A kernel whose barrier is left out is found to race. The device is lost after it, so that this has
// a process of its own.
#include <tenon/devices.h>
#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <cstdlib>

namespace tenon {
namespace {

TEST(SeededRace, AMissingBarrierOfAGeneratedKernelIsFound) {
  constexpr Device gpu(DeviceType::cuda);
  ASSERT_GT(device_count(DeviceType::cuda), 0) << why_no_device(DeviceType::cuda);
  Tensor x = randn({4, 3000}).to(gpu, Dtype::f32);
  double sum = x.amax({1}).sum().to(kCPU, Dtype::f64).item<double>();  // with its barriers
  EXPECT_GT(sum, 0);
  ::setenv("SIMT_DROPS_BARRIER", "0", 1);
  testing::internal::CaptureStderr();
  EXPECT_ANY_THROW(x.softmax(-1).to(kCPU, Dtype::f32).to_vector<float>());
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("races: thread"), std::string::npos) << said;
}

}  // namespace
}  // namespace tenon
