// The scalar primitives on single elements: accuracy, limits, integers that wrap, conversions.
#include "core/cpu_level.h"
#include "core/kernels/block_kernels.h"
#include "core/scalar/lane.h"
#include "unit/core/kernels_of.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace tenon {
namespace {

using formula::Lane;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

// Distance of `found` from `exact` in units of the last place of the f32 nearest to `exact`.
double ulps_off(float found, double exact) {
  auto nearest = static_cast<float>(exact);
  if (std::isnan(exact) || std::isinf(nearest) || std::isnan(found) || std::isinf(found))
    return (std::isnan(exact) && std::isnan(found)) || found == nearest ? 0 : 1e9;
  float a = std::abs(nearest);
  double ulp = double(std::nextafter(a, inf)) - a;
  if (a == std::numeric_limits<float>::max()) ulp = double(a) - std::nextafter(a, 0.0f);
  return std::abs(found - exact) / ulp;
}

// Floats of all magnitudes with both signs, spread over the bit patterns, with the special ones.
std::vector<float> spread_floats(uint32_t step) {
  std::vector<float> values = {0.0f, -0.0f, inf, -inf, nan_value, 1.0f, -1.0f, 0.5f, 2.0f};
  for (uint64_t bits = 1; bits < 0x100000000u; bits += step)
    if (float x = std::bit_cast<float>(static_cast<uint32_t>(bits)); !std::isnan(x))
      values.push_back(x);
  // Most arguments in use are of moderate size.
  for (float x = -20; x < 20; x += 0.0007f) values.push_back(x);
  return values;
}

struct Reference {
  ScalarCode code;
  double (*function)(double);
  double limit = 2.0;
};

TEST(Scalar, F32FunctionsAreWithinTwoUlpOnEveryLevel) {
  const Reference references[] = {
      {ScalarCode::exp, std::exp},
      {ScalarCode::exp2, std::exp2},
      {ScalarCode::expm1, std::expm1},
      {ScalarCode::log, std::log},
      {ScalarCode::log2, std::log2},
      {ScalarCode::log10, std::log10},
      {ScalarCode::log1p, std::log1p},
      {ScalarCode::sin, std::sin},
      {ScalarCode::cos, std::cos},
      {ScalarCode::tan, std::tan},
      {ScalarCode::asin, std::asin},
      {ScalarCode::acos, std::acos},
      {ScalarCode::atan, std::atan},
      {ScalarCode::sinh, std::sinh},
      {ScalarCode::cosh, std::cosh},
      {ScalarCode::tanh, std::tanh},
      {ScalarCode::asinh, std::asinh},
      {ScalarCode::acosh, std::acosh},
      {ScalarCode::atanh, std::atanh},
      {ScalarCode::erf, std::erf},
      {ScalarCode::erfc, std::erfc},
      {ScalarCode::sqrt, std::sqrt, 0.501},
      {ScalarCode::rsqrt, [](double x) { return 1 / std::sqrt(x); }},
      {ScalarCode::sigmoid,
       [](double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }},
  };
  std::vector<float> in = spread_floats(40009), out(in.size());
  for (int level = 0; level <= static_cast<int>(detect_cpu_level()); ++level)
    for (const Reference& r : references) {
      const void* operands[] = {in.data()};
      kernels_of(level).primitive[static_cast<int>(r.code)][0](out.data(), operands,
                                                               static_cast<int64_t>(in.size()), 0);
      double worst = 0;
      float where = 0;
      for (size_t i = 0; i < in.size(); ++i)
        if (double off = ulps_off(out[i], r.function(in[i])); off > worst)
          worst = off, where = in[i];
      EXPECT_LE(worst, r.limit) << info_of(r.code).name << "(" << where << ") level " << level;
    }
}

TEST(Scalar, PowIsWithinTwoUlp) {
  for (float a : {-3.0f, -1.0f, -0.0f, 0.0f, 1e-30f, 0.1f, 0.999f, 1.0f, 1.5f, 7.0f, 1e20f, inf})
    for (float b : {-inf, -40.5f, -3.0f, -1.0f, -0.1f, 0.0f, 0.3f, 1.0f, 2.5f, 17.0f, 200.0f, inf})
      EXPECT_LE(ulps_off(lane::Pow::run(a, b), std::pow(double(a), double(b))), 2.0)
          << a << "^" << b;
}

TEST(Scalar, SpecialFunctionsHaveKnownValues) {
  EXPECT_DOUBLE_EQ(lane::Digamma::run(1.0), -0.57721566490153286061);
  EXPECT_DOUBLE_EQ(lane::Digamma::run(0.5), -1.9635100260214234794);
  EXPECT_NEAR(lane::Digamma::run(-2.5), 1.1031566406452431872, 1e-14);
  EXPECT_TRUE(std::isnan(lane::Digamma::run(-3.0)));
  EXPECT_EQ(lane::Digamma::run(0.0), -std::numeric_limits<double>::infinity());
  EXPECT_DOUBLE_EQ(lane::Lgamma::run(0.5), 0.57236494292470008707);
  EXPECT_EQ(lane::Erfinv::run(1.0f), inf);
  EXPECT_EQ(lane::Erfinv::run(-1.0f), -inf);
  EXPECT_TRUE(std::isnan(lane::Erfinv::run(1.5f)));
  for (double y : {1e-12, 0.01, 0.25, 0.5, 1.0, 2.0, 3.0}) {
    EXPECT_NEAR(lane::Erfinv::run(std::erf(y)) / y, 1.0, y < 2 ? 1e-14 : 1e-9) << y;
    EXPECT_EQ(lane::Erfinv::run(-std::erf(y)), -lane::Erfinv::run(std::erf(y)));
  }
}

TEST(Scalar, SignOfZeroIsKept) {
  for (ScalarCode code :
       {ScalarCode::sin, ScalarCode::tan, ScalarCode::asin, ScalarCode::atan, ScalarCode::sinh,
        ScalarCode::tanh, ScalarCode::asinh, ScalarCode::atanh, ScalarCode::erf, ScalarCode::expm1,
        ScalarCode::log1p, ScalarCode::round, ScalarCode::floor, ScalarCode::trunc,
        ScalarCode::ceil, ScalarCode::sqrt, ScalarCode::erfinv}) {
    float in = -0.0f, out = 1;
    const void* operands[] = {&in};
    base::block_kernels.primitive[static_cast<int>(code)][0](&out, operands, 1, 0);
    EXPECT_EQ(std::bit_cast<uint32_t>(out), 0x80000000u) << info_of(code).name;
  }
  EXPECT_TRUE(std::signbit(lane::Ceil::run(-0.5f)));
  EXPECT_TRUE(std::signbit(lane::Round::run(-0.25)));
}

TEST(Scalar, RoundingAgreesWithTheLibrary) {
  for (double x :
       {0.0, 0.3, 0.5, 0.7, 1.0, 1.5, 2.5, 3.49, 8388607.5, 4503599627370495.5, 1e300, double(inf)})
    for (double v : {x, -x}) {
      EXPECT_EQ(lane::Floor::run(v), std::floor(v)) << v;
      EXPECT_EQ(lane::Ceil::run(v), std::ceil(v)) << v;
      EXPECT_EQ(lane::Trunc::run(v), std::trunc(v)) << v;
      EXPECT_EQ(lane::Round::run(v), std::nearbyint(v)) << v;
      auto f = static_cast<float>(v);
      EXPECT_EQ(lane::Floor::run(f), std::floor(f)) << f;
      EXPECT_EQ(lane::Round::run(f), std::nearbyint(f)) << f;
    }
  EXPECT_TRUE(std::isnan(lane::Trunc::run(nan_value)));
}

TEST(Scalar, IntegersWrap) {
  EXPECT_EQ(lane::Neg::run(int8_t{-128}), -128);
  EXPECT_EQ(lane::Abs::run(int8_t{-128}), -128);
  EXPECT_EQ(lane::Add::run(int8_t{127}, int8_t{1}), -128);
  EXPECT_EQ(lane::Mul::run(int16_t{-32768}, int16_t{-1}), -32768);
  int64_t lowest = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(lane::Sub::run(lowest, int64_t{1}), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(lane::Sub::run(uint8_t{0}, uint8_t{1}), 255);
  EXPECT_EQ(lane::TruncDiv::run(lowest, int64_t{-1}), lowest);
  EXPECT_EQ(lane::FloorDiv::run(lowest, int64_t{-1}), lowest);
  EXPECT_EQ(lane::Fmod::run(lowest, int64_t{-1}), 0);
  EXPECT_EQ(lane::Mod::run(lowest, int64_t{-1}), 0);
}

TEST(Scalar, IntegerQuotientsFollowTheirSigns) {
  EXPECT_EQ(lane::TruncDiv::run(-7, 2), -3);
  EXPECT_EQ(lane::FloorDiv::run(-7, 2), -4);
  EXPECT_EQ(lane::FloorDiv::run(7, -2), -4);
  EXPECT_EQ(lane::Fmod::run(-7, 2), -1);
  EXPECT_EQ(lane::Mod::run(-7, 2), 1);
  EXPECT_EQ(lane::Mod::run(7, -2), -1);
  EXPECT_EQ(lane::FloorDiv::run(uint8_t{7}, uint8_t{2}), 3);
  for (int b : {0}) {
    EXPECT_EQ(lane::TruncDiv::run(5, b), 0);
    EXPECT_EQ(lane::FloorDiv::run(5, b), 0);
    EXPECT_EQ(lane::Mod::run(5, b), 0);
  }
}

TEST(Scalar, FloatQuotientsFollowTheirSigns) {
  EXPECT_EQ(lane::Mod::run(-5.0f, 3.0f), 1.0f);
  EXPECT_EQ(lane::Fmod::run(-5.0f, 3.0f), -2.0f);
  EXPECT_EQ(lane::Mod::run(-5.0f, inf), inf);
  EXPECT_EQ(lane::FloorDiv::run(-7.0f, 2.0f), -4.0f);
  EXPECT_EQ(lane::FloorDiv::run(1.0f, 0.0f), inf);
  EXPECT_EQ(lane::FloorDiv::run(1.0f, 0.1f), 9.0f);
  EXPECT_TRUE(std::signbit(lane::FloorDiv::run(-0.0f, 2.0f)));
  EXPECT_EQ(lane::TruncDiv::run(-7.5f, 2.0f), -3.0f);
}

TEST(Scalar, IntegerPowersWrapAndTakeNegativeExponents) {
  EXPECT_EQ(lane::Pow::run(int64_t{3}, int64_t{4}), 81);
  EXPECT_EQ(lane::Pow::run(int8_t{2}, int8_t{7}), -128);
  EXPECT_EQ(lane::Pow::run(-1, -3), -1);
  EXPECT_EQ(lane::Pow::run(-1, -4), 1);
  EXPECT_EQ(lane::Pow::run(1, -9), 1);
  EXPECT_EQ(lane::Pow::run(2, -1), 0);
  EXPECT_EQ(lane::Pow::run(0, 0), 1);
}

TEST(Scalar, ShiftCountsOutsideTheWidthAreDefined) {
  EXPECT_EQ(lane::Shl::run(int8_t{1}, int8_t{7}), -128);
  EXPECT_EQ(lane::Shl::run(1, 32), 0);
  EXPECT_EQ(lane::Shl::run(1, -1), 0);
  EXPECT_EQ(lane::Shr::run(-8, 1), -4);
  EXPECT_EQ(lane::Shr::run(-8, 40), -1);
  EXPECT_EQ(lane::Shr::run(int8_t{-8}, int8_t{-1}), -1);
  EXPECT_EQ(lane::Shr::run(uint8_t{200}, uint8_t{8}), 0);
  EXPECT_EQ(lane::Shl::run(int64_t{1}, int64_t{63}), std::numeric_limits<int64_t>::min());
}

TEST(Scalar, ConversionsTruncateWrapAndMarkWhatDoesNotFit) {
  EXPECT_EQ(lane::Convert<int8_t>::run(300.7f), 44);
  EXPECT_EQ(lane::Convert<int8_t>::run(nan_value), 0);
  EXPECT_EQ(lane::Convert<uint8_t>::run(-1.0f), 255);
  EXPECT_EQ(lane::Convert<int32_t>::run(-2.9), -2);
  EXPECT_EQ(lane::Convert<int32_t>::run(nan_value), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(lane::Convert<int32_t>::run(3e9), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(lane::Convert<int64_t>::run(1e19f), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(lane::Convert<int64_t>::run(-0x1p63), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(lane::Convert<int16_t>::run(int64_t{0x12345}), 0x2345);
  EXPECT_TRUE(lane::Convert<bool>::run(nan_value));
  EXPECT_FALSE(lane::Convert<bool>::run(-0.0));
  EXPECT_EQ(lane::Convert<float>::run(true), 1.0f);
}

TEST(Scalar, ExtremesKeepNaN) {
  EXPECT_TRUE(std::isnan(lane::Min::run(nan_value, 1.0f)));
  EXPECT_TRUE(std::isnan(lane::Min::run(1.0f, nan_value)));
  EXPECT_TRUE(std::isnan(lane::Max::run(nan_value, 1.0f)));
  EXPECT_TRUE(std::isnan(lane::Max::run(1.0f, nan_value)));
  EXPECT_EQ(lane::Sign::run(nan_value), 0.0f);
  EXPECT_EQ(lane::Abs::run(-inf), inf);
}

TEST(Scalar, LanesRunFormulas) {
  auto relu = [](auto x) { return select(x <= 0, 0, x); };
  EXPECT_EQ(relu(Lane<float>{-3.0f}).value, 0.0f);
  EXPECT_TRUE(std::isnan(relu(Lane<float>{nan_value}).value));
  EXPECT_EQ(relu(Lane<int8_t>{7}).value, 7);
  auto heaviside = [](auto x, auto v) { return select(x == 0, v, as_number(x > 0)); };
  EXPECT_EQ(heaviside(Lane<double>{2.0}, Lane<double>{0.5}).value, 1.0);
  EXPECT_EQ(heaviside(Lane<int>{0}, Lane<int>{9}).value, 9);
  auto truncated = [](auto x) { return cast<int32_t>(x * 2) + 1; };
  EXPECT_EQ(truncated(Lane<float>{1.8f}).value, 4);
}

// Bits of every primitive over sample operands, on one level.
template <class T>
std::vector<unsigned char> bits_of(int level, int code, const std::vector<T>& a,
                                   const std::vector<T>& b, int type) {
  BlockFn run = kernels_of(level).primitive[code][type];
  auto size = run == nullptr ? 0 : a.size() * sizeof(T);
  std::vector<unsigned char> out(size), mask(a.size());
  if (run == nullptr) return out;
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = i % 3 == 0;
  const void* two[] = {a.data(), b.data(), nullptr};
  const void* three[] = {mask.data(), a.data(), b.data()};
  bool is_select = code == static_cast<int>(ScalarCode::select);
  run(out.data(), is_select ? three : two, static_cast<int64_t>(a.size()), 0);
  return out;
}

template <class T>
void expect_equal_levels(const std::vector<T>& a, int type) {
  std::vector<T> b(a.rbegin(), a.rend());
  for (int code = 2; code < n_scalar_codes; ++code) {
    std::vector<unsigned char> expected = bits_of(0, code, a, b, type);
    for (int level = 1; level <= static_cast<int>(detect_cpu_level()); ++level)
      EXPECT_EQ(bits_of(level, code, a, b, type), expected)
          << scalar_codes[code].name << " type " << type << " level " << level;
  }
}

TEST(Scalar, LevelsAgreeBitForBit) {
  std::vector<float> floats = spread_floats(3000017);
  std::erase_if(floats, [](float x) { return std::isnan(x); });  // the payload is not promised
  expect_equal_levels(floats, 0);
  expect_equal_levels(std::vector<double>(floats.begin(), floats.end()), 1);
  std::vector<int32_t> ints;
  for (int64_t i = -3000; i < 3001; ++i) ints.push_back(static_cast<int32_t>(i * 715827 + i));
  for (int i = -70; i < 70; ++i) ints.push_back(i);
  expect_equal_levels(std::vector<int8_t>(ints.begin(), ints.end()), 2);
  expect_equal_levels(std::vector<uint8_t>(ints.begin(), ints.end()), 3);
  expect_equal_levels(std::vector<int16_t>(ints.begin(), ints.end()), 4);
  expect_equal_levels(ints, 5);
  expect_equal_levels(std::vector<int64_t>(ints.begin(), ints.end()), 6);
}

TEST(Scalar, SixteenBitFloatsConvertTheSameOnEveryLevel) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  std::vector<float> in = spread_floats(100003);
  for (int type : {8, 9}) {
    std::vector<float> wide(all.size()), expected(all.size());
    std::vector<uint16_t> narrow(in.size()), expected_narrow(in.size());
    base::block_kernels.convert[type][0](expected.data(), all.data(), 65536);
    base::block_kernels.convert[0][type](expected_narrow.data(), in.data(),
                                         static_cast<int64_t>(in.size()));
    for (int level = 1; level <= static_cast<int>(detect_cpu_level()); ++level) {
      kernels_of(level).convert[type][0](wide.data(), all.data(), 65536);
      kernels_of(level).convert[0][type](narrow.data(), in.data(), static_cast<int64_t>(in.size()));
      EXPECT_EQ(std::memcmp(wide.data(), expected.data(), wide.size() * 4), 0) << type << level;
      EXPECT_EQ(narrow, expected_narrow) << type << " " << level;
    }
  }
}

}  // namespace
}  // namespace tenon
