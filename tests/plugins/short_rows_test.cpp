// Rows of few elements and of many, taking turns: what each backend that makes code gives is what
// the interpreter gives.
#include "backend/catalog.h"
#include "plugins/code_makers.h"

#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tenon {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct RowCase {
  const char* name;
  Tensor (*body)(const Tensor& x);  // of [2, 3, rows, elements]
};

const RowCase row_cases[] = {
    {"softmax", [](const Tensor& x) { return x.softmax(-1); }},
    {"softmax of what a mask leaves",
     [](const Tensor& x) { return where(x > 0, x, -infinity).softmax(-1).nan_to_num(0); }},
    {"a mask by row",
     [](const Tensor& x) { return where((x > 1).any(-1, true), x.softmax(-1), x * 2); }},
    {"a norm, scaled by element and by row",
     [](const Tensor& x) {
       Tensor d = x - x.mean({-1}, true);
       Tensor scale = x.select(0, 0).select(0, 0).select(0, 0);
       return d * rsqrt(d.pow(2).mean({-1}, true) + 1e-5) * scale + x.amax({-1}, true);
     }},
    {"a choice by a comparison of two numbers of a row",
     [](const Tensor& x) {
       Tensor low = x.amin({-1}, true), high = x.amax({-1}, true);
       return where(low + high > 0.5, x * 2, high) + where(high > low * -1, x, low);
     }},
    {"a choice among what is one number, or one of an element",
     [](const Tensor& x) {
       Tensor high = (x * 3).to(Dtype::u8).amax({-1}, true);
       return where(isfinite(high.sigmoid()), (x > 0) == high, high.sigmoid() * 2);
     }},
    {"places", [](const Tensor& x) { return x.argmax(-1) * 2 + x.argmin(-1); }},
    {"sums of two rows",
     [](const Tensor& x) {
       return x.sum({0, -1}) * x.sum({-1});
     }},
    {"products in double", [](const Tensor& x) { return (x.to(Dtype::f64) * 0.1 + 1).prod(-1); }},
    {"whole numbers",
     [](const Tensor& x) {
       Tensor i = (x * 10).to(Dtype::i64);
       return i - i.amax({-1}, true) + i.sum({-1}, true);
     }},
    {"columns of a permuted tensor",
     [](const Tensor& x) {
       return x.permute({1, 3, 0, 2}).contiguous() * 2 + 1;
     }},
    {"windows over rows and elements",
     [](const Tensor& x) {
       return max_pool2d(x, {2, 2}, {1, 1}, {1, 1}) * 2;
     }},
    {"what is padded",
     [](const Tensor& x) {
       return constant_pad_nd(x, {1, 2, 0, 3}) + 1;
     }},
    {"a bias by channel, as a norm of images has it",
     [](const Tensor& x) {
       Tensor b = x.mean({0, 2, 3}, true);
       return sigmoid(x * b + b) * x;
     }},
};

class ShortRows : public testing::Test {
 protected:
  void SetUp() override { set_plugin_search({}, {}); }
};

void expect_equal(const Tensor& found, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  std::vector<double> a = found.to(Dtype::f64).contiguous().to_vector<double>();
  std::vector<double> b = expected.to(Dtype::f64).contiguous().to_vector<double>();
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], 1e-4 * (1 + std::abs(b[i]))) << what << ", element " << i;
}

void expect_rows(const RowCase& row, const std::string& backend, bool is_dynamic) {
  constexpr int64_t sizes[][2] = {{7, 16}, {7, 16}, {40, 5}, {3, 700}, {1, 1}, {50, 16}, {5, 520}};
  auto compiled = compile(row.body, {.backend = backend, .dynamic = is_dynamic});
  for (auto [rows, elements] : sizes) {
    manual_seed(static_cast<uint64_t>(rows * elements));
    Tensor x = randn({2, 3, rows, elements});
    expect_equal(compiled(x), row.body(x),
                 backend + ": " + row.name + (is_dynamic ? ", dynamic, " : ", static, ") +
                     std::to_string(rows) + " rows of " + std::to_string(elements));
  }
}

TEST_F(ShortRows, AndLongOnesTakeTurns) {
  NoGradGuard no_grad;
  for (const std::string& backend : code_makers())
    for (const RowCase& row : row_cases)
      for (bool is_dynamic : {false, true}) expect_rows(row, backend, is_dynamic);
}

// What is not there takes the room of a row all the same.
TEST_F(ShortRows, MayBeNone) {
  NoGradGuard no_grad;
  auto columns = [](const Tensor& x, const Tensor& v) {
    Tensor y = x.matmul(v);
    Tensor none = slice(y, 1, SymInt(1), SymInt(1));
    return slice_scatter(zeros_like(y), none, 1, SymInt(0), SymInt(0)) + y;
  };
  Tensor x = randn({64, 64}), v = randn({64, 1});
  for (const std::string& backend : code_makers())
    expect_equal(compile(columns, {.backend = backend})(x, v), columns(x, v), backend);
}

// Parts of a joined tensor are written in order; what a part is fused with had better keep that
// between it and the others.
TEST_F(ShortRows, FoldedToOneAreThereBeforeTheyAreRead) {
  NoGradGuard no_grad;
  auto body = [](const Tensor& x) {
    Tensor s = x.sign(), low = s.amin({0}, true);
    Tensor joined = cat({x + s, x, s}, 1).cumsum(1);
    Tensor scaled = (low + 1) * sub(low, s, 2);
    return std::vector<Tensor>{x + (low + 1).round(), scaled, joined};
  };
  Tensor x = arange(Number(800), Dtype::i64).remainder(19).reshape({100, 2, 4}) + 2;
  for (const std::string& backend : code_makers()) {
    auto f = [&](const Tensor& t) {
      return body(select_scatter(t, full({100, 2}, 2, Dtype::i64), -1, 0));
    };
    std::vector<Tensor> found = compile(f, {.backend = backend})(x), expected = f(x);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(equal(found[i], expected[i])) << backend;
  }
}

void expect_within(float found, double expected, const std::string& what) {
  auto nearest = static_cast<float>(expected);
  if (!std::isfinite(nearest)) {
    EXPECT_TRUE(found == nearest || (std::isnan(found) && std::isnan(nearest))) << what;
    return;
  }
  float above = std::nextafter(std::abs(nearest), std::numeric_limits<float>::infinity());
  EXPECT_NEAR(found, expected, 2.5 * (above - std::abs(nearest))) << what;
}

TEST_F(ShortRows, FunctionsKeepTheirLimits) {
  Tensor x = tensor({-infinity, -200.0, -104.5, -100.0, -88.5, -20.0, -1e-30, -0.0, 0.0, 1e-30, 0.7,
                     20.0, 88.5, 89.5, 200.0, infinity, std::nan("")})
                 .to(Dtype::f32);
  NoGradGuard no_grad;
  auto all = [](const Tensor& x) { return stack({x.exp(), x.sigmoid(), x.tanh()}); };
  std::vector<double> expected = all(x.to(Dtype::f64)).to_vector<double>();
  for (const std::string& backend : code_makers()) {
    std::vector<float> found = compile(all, {.backend = backend})(x).to_vector<float>();
    for (size_t i = 0; i < found.size(); ++i)
      expect_within(found[i], expected[i], backend + ", element " + std::to_string(i));
  }
}

}  // namespace
}  // namespace tenon
