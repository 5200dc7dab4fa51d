// Instruction-set levels: names, and that the level in use is one that the machine has.
#include "core/cpu_level.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

TEST(CpuLevel, NamesAreReadBack) {
  for (CpuLevel level : {CpuLevel::base, CpuLevel::avx2, CpuLevel::avx512})
    EXPECT_EQ(cpu_level_named(name_of(level)), level);
  EXPECT_EQ(cpu_level_named("avx1024"), std::nullopt);
}

TEST(CpuLevel, TheLevelInUseIsOneOfThisMachine) { EXPECT_LE(cpu_level(), detect_cpu_level()); }

}  // namespace
}  // namespace tenon
