// Block kernels of every level against the same routine on one element: lengths around the groups
// that loops run over, in place, and blocks that hold arguments outside the domain of a fast form.
#include "core/kernels/block_kernels.h"
#include "core/cpu_level.h"
#include "core/scalar/scalar.h"
#include "core/scalar/scalar_program.h"
#include "unit/core/kernels_of.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace tenon {
namespace {

std::vector<float> arguments(size_t n, float special) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = 3.7f * std::sin(static_cast<float>(i) * 1.3f + 0.4f);
  if (n > 0 && special != 0) values[n / 2] = special;
  return values;
}

// The results of n elements, each bit for bit that of a call for this element at the level `base`.
void expect_same_as_single(BlockFn run, BlockFn single, std::vector<float> in, const char* name) {
  size_t n = in.size();
  std::vector<float> out(n + 1, -77), expected(n);
  for (size_t i = 0; i < n; ++i) {
    const void* operands[] = {&in[i]};
    single(&expected[i], operands, 1, 0);
  }
  const void* operands[] = {in.data()};
  run(out.data(), operands, static_cast<int64_t>(n), 0);
  EXPECT_EQ(out[n], -77) << name << " writes behind " << n;
  for (size_t i = 0; i < n; ++i)
    ASSERT_TRUE(std::memcmp(&out[i], &expected[i], 4) == 0 ||
                (std::isnan(out[i]) && std::isnan(expected[i])))
        << name << "(" << in[i] << ") at " << i << " of " << n << ": " << out[i] << ", alone "
        << expected[i];
  run(in.data(), operands, static_cast<int64_t>(n), 0);
  EXPECT_TRUE(n == 0 || std::memcmp(in.data(), out.data(), n * 4) == 0 || std::isnan(out[n / 2]))
      << name << " in place";
}

TEST(BlockKernels, EveryLengthGivesTheBitsOfSingleElements) {
  const float special[] = {0, std::nanf(""), std::numeric_limits<float>::infinity(), -100, 1e-40f};
  for (int level = 0; level <= static_cast<int>(detect_cpu_level()); ++level)
    for (ScalarCode code :
         {ScalarCode::neg, ScalarCode::exp, ScalarCode::log, ScalarCode::sigmoid, ScalarCode::tanh,
          ScalarCode::erf, ScalarCode::sin, ScalarCode::cos, ScalarCode::floor, ScalarCode::log1p})
      for (size_t n : {0, 1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 100, 512})
        for (float value : special)
          expect_same_as_single(kernels_of(level).primitive[static_cast<int>(code)][0],
                                base::block_kernels.primitive[static_cast<int>(code)][0],
                                arguments(n, value), info_of(code).name);
}

TEST(BlockKernels, PowersOfBlocksThatLeaveTheCommonDomainAreThoseOfTheLibrary) {
  for (int level = 0; level <= static_cast<int>(detect_cpu_level()); ++level)
    for (unsigned uniform : {0u, 1u, 2u, 3u})
      for (float odd : {2.0f, -2.0f, 0.0f, INFINITY}) {
        std::vector<float> a(70, 1.5f), b(70, 3.0f), out(70);
        a[(uniform & 1) != 0 ? 0 : 40] = odd;
        const void* in[] = {a.data(), b.data()};
        kernels_of(level).primitive[static_cast<int>(ScalarCode::pow)][0](out.data(), in, 70,
                                                                          uniform);
        for (size_t i = 0; i < 70; ++i)
          EXPECT_EQ(out[i], std::pow(a[(uniform & 1) != 0 ? 0 : i], 3.0f)) << i << " " << odd;
      }
}

template <class T>
void check_select(int level, int type) {
  for (int64_t n : {1, 15, 63, 64, 65, 200, 512})
    for (unsigned uniform = 0; uniform < 8; ++uniform) {
      std::vector<uint8_t> mask(static_cast<size_t>(n));
      std::vector<T> a(mask.size()), b(mask.size()), out(mask.size() + 1, T(9));
      for (size_t i = 0; i < mask.size(); ++i) {
        mask[i] = i % 3 == 0;
        a[i] = static_cast<T>(i % 50 + 1);
        b[i] = static_cast<T>(i % 40 + 60);
      }
      const void* in[] = {mask.data(), a.data(), b.data()};
      kernels_of(level).primitive[static_cast<int>(ScalarCode::select)][type](out.data(), in, n,
                                                                              uniform);
      auto at = [&](unsigned operand, size_t i) { return (uniform >> operand & 1) != 0 ? 0 : i; };
      for (size_t i = 0; i < mask.size(); ++i)
        ASSERT_EQ(out[i], mask[at(0, i)] != 0 ? a[at(1, i)] : b[at(2, i)])
            << i << " of " << n << ", uniform " << uniform;
      EXPECT_EQ(out[mask.size()], T(9));
    }
}

TEST(BlockKernels, SelectTakesItsOperandsSingleOrNot) {
  for (int level = 0; level <= static_cast<int>(detect_cpu_level()); ++level) {
    check_select<float>(level, static_cast<int>(BlockType::f32));
    check_select<double>(level, static_cast<int>(BlockType::f64));
    check_select<uint8_t>(level, static_cast<int>(BlockType::u8));
    check_select<int16_t>(level, static_cast<int>(BlockType::i16));
    check_select<int64_t>(level, static_cast<int>(BlockType::i64));
  }
}

}  // namespace
}  // namespace tenon
