// A pointwise op of six lines, added at run time, is differentiable, fake-able and compilable.
#include <tenon/autograd.h>
#include <tenon/compile.h>
#include <tenon/library.h>
#include <tenon/ops.h>

#include "core/dispatch.h"
#include "core/sym/shape_env.h"
#include "graph/record.h"
#include "ops/op_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

const Op<Tensor(const Tensor&, Number)> bump("new_op_test.bump.default");

class NewOp : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Library::add("new_op_test", [](Library& m) {
      m.def("bump(Tensor x, Scalar width) -> Tensor").formula<2>([](auto x, auto width) {
        return exp(-(x * x) / width);
      });
    });
  }
};

double value_at(double x, double w) { return std::exp(-x * x / w); }
double slope_at(double x, double w) { return -2 * x / w * value_at(x, w); }

TEST_F(NewOp, IsDifferentiableTwice) {
  Tensor x = tensor(std::vector<double>{0.3, -0.7}, {2}).requires_grad_();
  Tensor first = autograd::grad({bump(x, Number(2.0)).sum()}, {x}, {.create_graph = true})[0];
  std::vector<double> found = first.detach().to_vector<double>();
  EXPECT_NEAR(found[0], slope_at(0.3, 2), 1e-12);
  EXPECT_NEAR(found[1], slope_at(-0.7, 2), 1e-12);
  EXPECT_EQ(autograd::grad_check(
                [](const std::vector<Tensor>& in) {
                  return std::vector<Tensor>{bump(in[0], Number(2.0))};
                },
                {x.detach()}, {.second_order = true}),
            "");
}

TEST_F(NewOp, RunsOnFakes) {
  std::shared_ptr<ShapeEnv> env = ShapeEnv::make();
  ShapeEnvScope scope(*env);
  FakeScope fakes;
  Tensor y = bump(make_fake(contiguous_meta({3, 4}, Dtype::f32)), Number(1.0));
  EXPECT_TRUE(y.is_fake());
  EXPECT_EQ(y.sizes()[1].word(), 4);
}

TEST_F(NewOp, IsCompiledAndTrained) {
  auto f = compile([](const Tensor& x) { return bump(x, Number(2.0)) * x; }, {.backend = "eager"});
  Tensor x = tensor(std::vector<double>{0.3}, {1}).requires_grad_();
  Tensor y = f(x);
  EXPECT_NEAR(y.detach().to_vector<double>()[0], 0.3 * value_at(0.3, 2), 1e-12);
  y.backward();
  EXPECT_NEAR(x.grad().to_vector<double>()[0], value_at(0.3, 2) + 0.3 * slope_at(0.3, 2), 1e-12);
}

}  // namespace
}  // namespace tenon
