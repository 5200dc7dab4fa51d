// aot_function, aot_module and memory_efficient_fusion: who compiles which half, and how it is cut.
#include "backend/backend.h"
#include "graph/artifact.h"
#include "graph/text/print.h"
#include "unit/distance.h"
#include "unit/message_of.h"

#include <tenon/functorch.h>
#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

class FunctorchCompilers : public testing::Test {
 protected:
  void SetUp() override {
    seen().clear();
    for (std::string name : {"first_half", "second_half"})
      register_backend(
          name,
          [name](const CompileRequest& request) {
            seen().push_back({name, to_text(*request.graph), request.graph->outputs().size()});
            return interpreter_artifact(request.graph);
          },
          {}, Stage::inference);
  }
  struct Seen {
    std::string backend, text;
    size_t n_outputs;
  };
  static std::vector<Seen>& seen() {
    static std::vector<Seen> graphs;
    return graphs;
  }
};

Tensor chain(const Tensor& x) { return hardswish(x.sin().exp().cos()); }

std::vector<float> gradient_of(const Tensor& loss, const Tensor& x) {
  loss.backward();
  return x.grad().to_vector<float>();
}

TEST_F(FunctorchCompilers, EachHalfGoesToItsOwn) {
  auto f = aot_function(chain, {.fw_compiler = "first_half", .bw_compiler = "second_half"});
  Tensor x = ones({3}).requires_grad_(), y = ones({3}).requires_grad_();
  EXPECT_EQ(gradient_of(f(x).sum(), x), gradient_of(chain(y).sum(), y));
  ASSERT_EQ(seen().size(), 2u);
  EXPECT_EQ(seen()[0].backend, "first_half");
  EXPECT_EQ(seen()[1].backend, "second_half");
}

TEST_F(FunctorchCompilers, TheDefaultPartitionSavesMoreThanTheMinimumCut) {
  for (const char* partition : {"default", "min_cut"}) {
    auto f = aot_function(chain, {.fw_compiler = "first_half", .partition = partition});
    Tensor x = ones({3}).requires_grad_();
    f(x).sum().backward();
  }
  ASSERT_EQ(seen().size(), 4u);
  EXPECT_GT(seen()[0].n_outputs, seen()[2].n_outputs);
  EXPECT_EQ(seen()[2].n_outputs, 1u);  // all of the backward is computed from x
}

TEST_F(FunctorchCompilers, MemoryEfficientFusionCutsAndTakesSmallOpsApart) {
  auto f = memory_efficient_fusion(chain, {.fw_compiler = "first_half"});
  Tensor x = ones({3}).requires_grad_(), y = ones({3}).requires_grad_();
  EXPECT_EQ(gradient_of(f(x).sum(), x), gradient_of(chain(y).sum(), y));
  ASSERT_EQ(seen().size(), 2u);
  EXPECT_EQ(seen()[0].n_outputs, 1u);
  EXPECT_THAT(seen()[0].text, Not(HasSubstr("hardswish")));
  EXPECT_THAT(seen()[1].text, Not(HasSubstr("hardswish_backward")));
}

TEST_F(FunctorchCompilers, OverridesOfMemoryEfficientFusionWin) {
  auto f = memory_efficient_fusion(
      chain, {.fw_compiler = "first_half", .partition = "default", .decompositions = "none"});
  Tensor x = ones({3}).requires_grad_();
  f(x).sum().backward();
  ASSERT_EQ(seen().size(), 2u);
  EXPECT_GT(seen()[0].n_outputs, 1u);
  EXPECT_THAT(seen()[0].text, HasSubstr("hardswish"));
}

TEST_F(FunctorchCompilers, WithoutGradientsTheForwardsBackendGetsTheWholeGraph) {
  auto f = aot_function(chain, {.fw_compiler = "first_half", .bw_compiler = "second_half"});
  EXPECT_TRUE(f(ones({3})).equal(chain(ones({3}))));
  ASSERT_EQ(seen().size(), 1u);
  EXPECT_EQ(seen()[0].backend, "first_half");
}

TEST_F(FunctorchCompilers, AModuleKeepsItsParameters) {
  nn::Linear layer(3, 2);
  auto f = aot_module([layer](const Tensor& x) { return layer(x); }, {.fw_compiler = "first_half"});
  Tensor x = ones({4, 3});
  f(x).sum().backward();
  EXPECT_EQ(layer.weight.grad().to_vector<float>(), (std::vector<float>(6, 4)));
  EXPECT_EQ(seen().size(), 2u);
}

TEST_F(FunctorchCompilers, TheDefaultBackendComputesWhatEagerDoes) {
  auto f = memory_efficient_fusion([](const Tensor& x) { return gelu(x).mul(x).sum(); });
  Tensor x = linspace(-2, 2, 33).requires_grad_(), y = linspace(-2, 2, 33).requires_grad_();
  f(x).backward();
  gelu(y).mul(y).sum().backward();
  EXPECT_LT(distance(x.grad(), y.grad()), 1e-5);
}

// PyTorch's 22 without forms that write, and without those that have no row or nothing to be taken
// apart into here: cudnn_batch_norm, is_same_size, detach, conj_physical, elu, leaky_relu.
TEST_F(FunctorchCompilers, DefaultDecompositionsAreThoseOfPyTorch) {
  EXPECT_THAT(default_decompositions(),
              UnorderedElementsAre("aten.elu_backward.default", "aten.gelu_backward.default",
                                   "aten.hardsigmoid.default", "aten.hardsigmoid_backward.default",
                                   "aten.hardswish.default", "aten.hardswish_backward.default",
                                   "aten.hardtanh.default", "aten.hardtanh_backward.default",
                                   "aten.leaky_relu_backward.default", "aten.masked_fill.Scalar",
                                   "aten.masked_fill.Tensor", "aten.sigmoid_backward.default",
                                   "aten.silu_backward.default", "aten.tanh_backward.default",
                                   "aten.threshold_backward.default"));
}

TEST_F(FunctorchCompilers, WrongChoicesAreErrors) {
  EXPECT_THAT(message_of([] { aot_function(chain, {.partition = "max_cut"}); }),
              HasSubstr("partition = \"max_cut\": expected default or min_cut"));
  EXPECT_THAT(message_of([] { aot_function(chain, {.bw_compiler = "no_such"}); }),
              HasSubstr("there is no backend 'no_such'"));
  EXPECT_THAT(message_of([] { aot_function(chain, {.decompositions = "some"}); }),
              HasSubstr("there is no decomposition set 'some'"));
}

}  // namespace
}  // namespace tenon
