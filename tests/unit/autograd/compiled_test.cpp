// Gradients through compiled callables, on backends of every stage.
#include <tenon/autograd.h>
#include <tenon/compile.h>
#include <tenon/ops.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using ::testing::ElementsAre;

class CompiledGradients : public ::testing::TestWithParam<const char*> {};

TEST_P(CompiledGradients, AreThoseOfTheBody) {
  auto f = compile([](const Tensor& x, const Tensor& w) { return ((x * w).relu() + w).sum(); },
                   {.backend = GetParam()});
  Tensor x = tensor(std::vector<double>{1, -2, 3}, {3});
  Tensor w = tensor(std::vector<double>{4, 5, 6}, {3}).requires_grad_();
  for (int call = 1; call <= 2; ++call) {
    f(x, w).backward();
    EXPECT_THAT(w.grad().to_vector<double>(), ElementsAre(2 * call, 1 * call, 4 * call));
  }
}

TEST_P(CompiledGradients, AreNotRecordedWithoutNeed) {
  auto f = compile([](const Tensor& x) { return x * 2; }, {.backend = GetParam()});
  Tensor x = tensor(std::vector<double>{1}, {1}).requires_grad_();
  NoGradGuard no_grad;
  EXPECT_FALSE(f(x).requires_grad());
}

INSTANTIATE_TEST_SUITE_P(Backends, CompiledGradients, ::testing::Values("eager", "aot_eager"));

}  // namespace
}  // namespace tenon
