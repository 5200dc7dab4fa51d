// Parts of a body that run with gradients off: backends that run its nodes themselves give the
// gradients of the plain body, whether they follow the modes of nodes or know nothing of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/backend.h"
#include "backend/catalog.h"
#include "report/events.h"

#include <tenon/tenon.h>

#include <functional>

namespace tenon {
namespace {

using ::testing::HasSubstr;

using Body = std::function<Tensor(const Tensor& x, const Tensor& w)>;

/// What a call gives, leaves in the weight, and has as gradient of it.
struct Left {
  std::vector<float> result, weight, gradient;
  bool operator==(const Left&) const = default;
};

Left left_by(const Body& body) {
  Tensor w = tensor({1.0f, 2.0f, 3.0f}).requires_grad_();
  Tensor result = body(tensor({0.5f, -1.0f, 2.0f}), w);
  if (result.requires_grad()) result.sum().backward();
  Left left{result.detach().to_vector<float>(), w.detach().to_vector<float>(), {}};
  if (w.grad().defined()) left.gradient = w.grad().to_vector<float>();
  return left;
}

class GradModes : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    set_plugin_search({}, {TENON_TEST_PLUGIN_DIR});
    report::reset_counters();
  }
  // Twice: recorded, and served.
  void expect_as_plain(const Body& body) {
    auto f = compile(body, {.backend = GetParam()});
    Left plain = left_by(body);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(left_by(f), plain) << "call " << i;
  }
};

bool ignores_modes(const std::string& backend) { return backend == "modes_by_op"; }

TEST_P(GradModes, WhatIsComputedUnderAGuardIsAConstant) {
  expect_as_plain([](const Tensor& x, const Tensor& w) {
    Tensor a;
    {
      NoGradGuard guard;
      a = x * w;
    }
    return a * w;
  });
  EXPECT_EQ(report::counter("backend.regions").value() > 0, ignores_modes(GetParam()));
}

TEST_P(GradModes, GradientsMayBeOnAgainWithin) {
  expect_as_plain([](const Tensor& x, const Tensor& w) {
    Tensor a = x * w, b;
    NoGradGuard off;
    b = a * 2;
    EnableGradGuard on;
    return (b + w) * a;
  });
}

TEST_P(GradModes, AWeightIsWrittenUnderAGuard) {
  expect_as_plain([](const Tensor& x, const Tensor& w) {
    {
      NoGradGuard guard;
      w.add_(x);
      w.slice(0, 0, 1).mul_(2.0);
    }
    return x * w;
  });
}

TEST_P(GradModes, AValueOnTheTapeIsWrittenThroughAViewUnderAGuard) {
  expect_as_plain([](const Tensor& x, const Tensor& w) {
    Tensor y = x * w;
    {
      NoGradGuard guard;
      y.slice(0, 0, 2).mul_(2.0);
    }
    return y * w;
  });
}

// The backend keeps such a graph: its code is called with gradients off.
TEST_P(GradModes, AllMayRunUnderAGuard) {
  expect_as_plain([](const Tensor& x, const Tensor& w) {
    NoGradGuard guard;
    w.mul_(2.0);
    return x * w;
  });
  EXPECT_EQ(report::counter("fallback.calls").value(), 0);
}

TEST_P(GradModes, NothingIsLeftWhereTheyDoNotChange) {
  expect_as_plain([](const Tensor& x, const Tensor& w) { return (x * w).tanh() * w; });
  EXPECT_EQ(report::counter("fallback.calls").value(), 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, GradModes,
                         testing::Values("modes_by_op", "modes_by_node", "modes_of_program"));

TEST(GradModesOfNodes, ABackendWithoutAFallbackRefusesWhatItWouldGetWrong) {
  set_plugin_search({}, {TENON_TEST_PLUGIN_DIR});
  auto f = compile(
      [](const Tensor& x) {
        NoGradGuard off;
        Tensor a = x * 2;
        EnableGradGuard on;
        return a * x;
      },
      {.backend = "modes_by_op_alone"});
  try {
    f(ones({2}).requires_grad_());
    FAIL() << "it was compiled";
  } catch (const BackendError& error) {
    EXPECT_THAT(error.what(), HasSubstr("aten.mul.Scalar: gradients are off there"));
    EXPECT_THAT(error.what(), HasSubstr("has no fallback"));
  }
}

}  // namespace
}  // namespace tenon
