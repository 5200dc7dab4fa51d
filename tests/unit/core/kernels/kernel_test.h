// What the tests of the compute kernels share: every level of this machine, and random data.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/kernels/level_table.h"

namespace tenon::kernels {

/// A test body that runs once for each CPU level of this machine.
class EachLevel : public ::testing::TestWithParam<CpuLevel> {
 protected:
  void SetUp() override {
    if (GetParam() > detect_cpu_level()) GTEST_SKIP() << "this machine lacks the CPU level";
    use_kernel_level(GetParam());
  }
  void TearDown() override { use_kernel_level(cpu_level()); }
};

/// Runs the tests of a suite, `struct Suite : EachLevel {};`, for each level.
#define TENON_TEST_EACH_LEVEL(Suite)                                                            \
  INSTANTIATE_TEST_SUITE_P(Levels, Suite,                                                       \
                           ::testing::Values(CpuLevel::base, CpuLevel::avx2, CpuLevel::avx512), \
                           [](const auto& info) { return std::string(name_of(info.param)); })

inline std::mt19937& random_source() {
  static std::mt19937 source(7);
  return source;
}

inline int64_t random_int(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random_source());
}

template <class T>
std::vector<T> random_values(int64_t n, double low = -1, double high = 1) {
  std::uniform_real_distribution<double> draw(low, high);
  std::vector<T> values(static_cast<size_t>(n));
  for (T& v : values) v = static_cast<T>(draw(random_source()));
  return values;
}

}  // namespace tenon::kernels
