// What tests of GPUs begin with: on a machine without one they are skipped, in words by which ctest
// tells that from a test that failed; over the double there always is a device, and a test that is
// skipped would test nothing.
#pragma once

#include <tenon/devices.h>

#include <gtest/gtest.h>

#ifdef TENON_OVER_THE_DOUBLE
#define TENON_NEEDS_A_GPU()                                  \
  ASSERT_GT(tenon::device_count(tenon::DeviceType::cuda), 0) \
      << tenon::why_no_device(tenon::DeviceType::cuda)
#else
#define TENON_NEEDS_A_GPU()                              \
  if (tenon::device_count(tenon::DeviceType::cuda) == 0) \
  GTEST_SKIP() << "no GPU: " << tenon::why_no_device(tenon::DeviceType::cuda)
#endif
