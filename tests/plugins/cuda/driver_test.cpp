// Finding the driver, and the reason where there is none.
#include "double.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>

namespace tenon {

// ctest runs it once a reason, which the environment brings about.
TEST(CudaDriver, TellsWhyThereIsNoDevice) {
  const char* reason = std::getenv("TENON_TEST_REASON");
  ASSERT_TRUE(reason) << "to be run by ctest";
  std::string why = why_no_device(DeviceType::cuda);
  if (why.empty()) {  // the driver is there, its device is not good enough
    try {
      device_properties(gpu);
    } catch (const Error& e) {
      why = e.what();
    }
  } else {
    EXPECT_EQ(device_count(DeviceType::cuda), 0);
  }
  EXPECT_TRUE(std::regex_search(why, std::regex(reason))) << why;
}

}  // namespace tenon
