// Dtypes and 16-bit floating-point numbers.
#include <tenon/dtype.h>
#include <tenon/half.h>

#include <cmath>
#include <limits>

#include "test_files.h"

namespace tenon {
namespace {

TEST(Dtype, NamesLeadBackToTheDtype) {
  for (const auto& row : detail::dtype_rows) {
    EXPECT_EQ(parse_dtype(name_of(row.dtype)), row.dtype);
    EXPECT_EQ(parse_dtype("torch." + std::string(torch_name_of(row.dtype))), row.dtype);
    EXPECT_TRUE(is_dtype(static_cast<int>(row.dtype)));
  }
  EXPECT_EQ(parse_dtype("float33"), std::nullopt);
  EXPECT_FALSE(is_dtype(12));
  EXPECT_FALSE(is_dtype(-1));
  EXPECT_EQ(itemsize(Dtype::c128), 16);
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(Half(1.0f).bits, 0x3C00);
  EXPECT_EQ(Half(2049.0f), 2048.0f);
  EXPECT_EQ(Half(2051.0f), 2052.0f);
  EXPECT_EQ(Half(65519.0f), 65504.0f);
  EXPECT_EQ(Half(65520.0f), std::numeric_limits<float>::infinity());
  EXPECT_EQ(Half(0x1p-24f).bits, 1);
  EXPECT_EQ(Half(0x1p-25f).bits, 0);
  EXPECT_EQ(Half(0x1.8p-24f).bits, 2);
  EXPECT_EQ(Half(-0.0f).bits, 0x8000);
}

TEST(Half, GivesBackEveryNumber) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = Half::from_bits(static_cast<uint16_t>(bits));
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(static_cast<float>(Half(value))));
    else
      EXPECT_EQ(Half(value).bits, bits);
  }
}

TEST(BFloat16, RoundsToNearestEvenAndKeepsNaN) {
  EXPECT_EQ(BFloat16(1.0f).bits, 0x3F80);
  EXPECT_EQ(BFloat16(1.0f + 0x1p-8f).bits, 0x3F80);
  EXPECT_EQ(BFloat16(1.0f + 0x1.8p-7f).bits, 0x3F82);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::nanf("")))));
}

}  // namespace
}  // namespace tenon
