// Functions of f64 that a GPU has no instructions for, against the CPU's.
#include "needs_gpu.h"

#include <tenon/devices.h>
#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace tenon {
namespace {

constexpr Device gpu(DeviceType::cuda);

class GpuFunctions : public testing::Test {
 protected:
  void SetUp() override { TENON_NEEDS_A_GPU(); }
};

using Function = std::function<Tensor(const Tensor&)>;

std::vector<double> special_numbers() {
  double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  return {0.0,   -0.0, 1.0,    -1.0,    0.5,   -0.5,   2.0,    -2.0, 3.0, inf,
          -inf,  nan,  5e-324, -1e-310, 1e-17, 1e300,  -1e300, 1e22, 0.1, 10.0,
          100.0, 1e-5, 1023.5, -1022.5, 709.5, -745.0, 21.9,   22.1};
}

/// From 2^-40 to 2^40 in both signs, and around 0 and 1.
std::vector<double> spread_numbers() {
  std::vector<double> out;
  for (int i = -400; i <= 400; ++i) {
    double x = std::exp2(i * 0.1) * (1 + 0.01 * (i % 7));
    out.push_back(x), out.push_back(-x);
    out.push_back(i * 0.01), out.push_back(i * 0.37);
    out.push_back(1 + i * 1e-6);
  }
  return out;
}

/// `units`: of the last place; `absolute`: where results are near 0.
void expect_near(const std::string& what, const std::vector<double>& at, const Function& f,
                 double units = 4, double absolute = 0) {
  Tensor x = tensor(at);
  std::vector<double> found = f(x.to(gpu, Dtype::f64)).to(kCPU, Dtype::f64).to_vector<double>();
  std::vector<double> expected = f(x).to_vector<double>();
  int n_wrong = 0;
  for (size_t i = 0; i < at.size() && n_wrong < 5; ++i) {
    double a = found[i], b = expected[i];
    bool is_same = a == b ? std::signbit(a) == std::signbit(b) : std::isnan(a) && std::isnan(b);
    double allowed =
        std::isfinite(b) ? std::fabs(b) * units * 0x1p-52 + absolute + 5e-324 * units : 0;
    if (is_same || std::fabs(a - b) <= allowed) continue;
    ++n_wrong;
    ADD_FAILURE() << what << "(" << at[i] << ") is " << a << ", on the CPU " << b << ", "
                  << std::fabs(a - b) / (std::fabs(b) * 0x1p-52) << " units off";
  }
}

struct Named {
  const char* name;
  Function f;
};

TEST_F(GpuFunctions, OfDoublesAreThoseOfTheCpu) {
  const Named functions[] = {
      {"sin", [](const Tensor& x) { return x.sin(); }},
      {"cos", [](const Tensor& x) { return x.cos(); }},
      {"tan", [](const Tensor& x) { return x.tan(); }},
      {"asin", [](const Tensor& x) { return x.asin(); }},
      {"acos", [](const Tensor& x) { return x.acos(); }},
      {"atan", [](const Tensor& x) { return x.atan(); }},
      {"sinh", [](const Tensor& x) { return x.sinh(); }},
      {"cosh", [](const Tensor& x) { return x.cosh(); }},
      {"asinh", [](const Tensor& x) { return x.asinh(); }},
      {"acosh", [](const Tensor& x) { return x.acosh(); }},
      {"atanh", [](const Tensor& x) { return x.atanh(); }},
      {"exp2", [](const Tensor& x) { return x.exp2(); }},
      {"expm1", [](const Tensor& x) { return x.expm1(); }},
      {"log1p", [](const Tensor& x) { return x.log1p(); }},
      {"log2", [](const Tensor& x) { return x.log2(); }},
      {"log10", [](const Tensor& x) { return x.log10(); }},
  };
  for (const Named& n : functions) {
    expect_near(n.name, special_numbers(), n.f);
    expect_near(n.name, spread_numbers(), n.f);
  }
}

TEST_F(GpuFunctions, SpecialOnes) {
  auto all = spread_numbers();
  expect_near(
      "erfc", special_numbers(), [](const Tensor& x) { return x.erfc(); }, 8);
  expect_near(
      "erfc", all, [](const Tensor& x) { return x.erfc(); }, 8);
  std::vector<double> inner;
  for (int i = -999; i <= 999; ++i) inner.push_back(i * 0.001);
  expect_near(
      "erfinv", inner, [](const Tensor& x) { return x.erfinv(); }, 8);
  expect_near(
      "lgamma", special_numbers(), [](const Tensor& x) { return x.lgamma(); }, 16, 2e-14);
  expect_near(
      "lgamma", inner, [](const Tensor& x) { return (x * 30 + 0.017).lgamma(); }, 64, 1e-12);
  expect_near(
      "digamma", inner, [](const Tensor& x) { return (x * 30 + 0.017).digamma(); }, 64, 1e-12);
}

// What is left of a large angle depends on digits of pi far behind the point.
TEST_F(GpuFunctions, LargeAngles) {
  std::vector<double> at;
  for (int e = 20; e < 1024; e += 3)
    for (double m : {1.0, 1.3333333333, 1.9999999}) at.push_back(std::ldexp(m, e));
  expect_near("sin", at, [](const Tensor& x) { return x.sin(); });
  expect_near("cos", at, [](const Tensor& x) { return x.cos(); });
  // As near to a multiple of pi / 2 as a double can be.
  expect_near(
      "cos", {5.319372648326541e+255}, [](const Tensor& x) { return x.cos(); }, 16);
}

TEST_F(GpuFunctions, OfTwoOperands) {
  std::vector<double> at = special_numbers();
  Tensor y = tensor(at).unsqueeze(1), x = tensor(at).unsqueeze(0);
  auto rows = [&](const Tensor& a, const Tensor& b) { return atan2(a, b).reshape({-1}); };
  std::vector<double> found =
      rows(y.to(gpu, Dtype::f64), x.to(gpu, Dtype::f64)).to(kCPU, Dtype::f64).to_vector<double>();
  std::vector<double> expected = rows(y, x).to_vector<double>();
  for (size_t i = 0; i < found.size(); ++i) {
    bool both_nan = std::isnan(found[i]) && std::isnan(expected[i]);
    bool is_near = std::fabs(found[i] - expected[i]) <= std::fabs(expected[i]) * 1e-15 + 1e-322;
    bool has_sign = std::signbit(found[i]) == std::signbit(expected[i]);
    EXPECT_TRUE(both_nan || (is_near && has_sign)) << at[i / at.size()] << ", " << at[i % at.size()]
                                                   << ": " << found[i] << ", not " << expected[i];
  }
}

}  // namespace
}  // namespace tenon
