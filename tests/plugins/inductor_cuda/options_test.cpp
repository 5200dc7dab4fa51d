// Options of a backend that two plugins offer: inductor for the CPU and for GPUs.
#include <tenon/devices.h>
#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace tenon {
namespace {

using testing::HasSubstr;

using OptionTexts = std::map<std::string, std::string>;

/// x.exp() + 1 on a device, compiled with the options; what went wrong as text.
std::string outcome(Device device, OptionTexts options) {
  try {
    auto f = compile([](const Tensor& x) { return x.exp() + 1; },
                     {.backend = "inductor", .options = std::move(options)});
    Tensor x = randn({5, 3});
    Tensor there = f(x.to(device, Dtype::f32)).to(kCPU, Dtype::f32);
    return (there - (x.exp() + 1)).abs().max().item<float>() < 1e-5f ? "" : "another result";
  } catch (const Error& e) {
    return e.what();
  }
}

TEST(GpuOptions, OfEachPluginAreKnownOnEveryDevice) {
  // `winograd` is the CPU plugin's alone, `max_fusion_size` that of both.
  for (Device device : {kCPU, Device(DeviceType::cuda)}) {
    EXPECT_EQ(outcome(device, {{"winograd", "\"off\""}}), "") << to_text(device);
    EXPECT_EQ(outcome(device, {{"max_fusion_size", "1"}}), "") << to_text(device);
  }
}

TEST(GpuOptions, ThatMeanNothingThereAreStillChecked) {
  Device gpu(DeviceType::cuda);
  EXPECT_THAT(outcome(gpu, {{"winograd", "\"sometimes\""}}), HasSubstr("option inductor.winograd"));
  EXPECT_THAT(outcome(gpu, {{"winogard", "\"off\""}}),
              HasSubstr("has no option 'winogard'; the nearest are winograd"));
  EXPECT_THAT(outcome(gpu, {{"max_fusion_size", "0"}}),
              HasSubstr("option inductor.max_fusion_size"));
}

// Of the last call; over the double events have times of their own.
TEST(GpuOptions, AProfileTellsTheTimeOfEachItem) {
  Device gpu(DeviceType::cuda);
  testing::internal::CaptureStderr();
  {
    auto f = compile([](const Tensor& x) { return x.matmul(x).relu().sum(0); },
                     {.backend = "inductor", .options = {{"profile", "true"}}});
    Tensor x = ones({64, 64}).to(gpu, Dtype::f32);
    for (int i = 0; i < 3; ++i) f(x);
    synchronize(gpu);
  }
  reset();
  std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, testing::ContainsRegex("sum of all items [0-9.]+ us on the device"));
  EXPECT_THAT(log, testing::ContainsRegex("[0-9.]+ us .*kernel"));
  EXPECT_THAT(log, testing::ContainsRegex("[0-9.]+ us .*product"));
}

}  // namespace
}  // namespace tenon
