// functorch.backward_pass_autocast: the types that compiled backwards compute in.
#include "backend/backend.h"
#include "graph/artifact.h"
#include "ops/op_table.h"
#include "unit/distance.h"
#include "unit/message_of.h"

#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class BackwardAutocast : public testing::Test {
 protected:
  void SetUp() override {
    products().clear();
    register_backend(
        "tells_products",
        [](const CompileRequest& request) {
          for (const Node& node : request.graph->nodes())
            if (request.stage == Stage::backward && entry_of(node.op).name == "aten.mm.default")
              products().push_back(request.graph->value(node.first_result).meta.dtype);
          return interpreter_artifact(request.graph);
        },
        {}, Stage::inference);
  }
  /// The types of the products in compiled backwards.
  static std::vector<Dtype>& products() {
    static std::vector<Dtype> types;
    return types;
  }

  // The region without autocast has products in f32; its backward is recorded under what is set
  // around the call.
  static std::pair<Tensor, Tensor> gradients_of_exact_product() {
    auto f = compile(
        [](const Tensor& x, const Tensor& w) {
          AutocastGuard exact({.enabled = false});
          return x.matmul(w);
        },
        {.backend = "tells_products"});
    Tensor x = arange(12).to(Dtype::f32).mul(0.37).sin().reshape({3, 4}).requires_grad_();
    Tensor w = arange(8).to(Dtype::f32).mul(0.71).cos().reshape({4, 2}).requires_grad_();
    Tensor y;
    {
      AutocastGuard guard;
      y = f(x, w);
    }
    EXPECT_EQ(y.dtype(), Dtype::f32);
    y.sin().sum().backward();
    return {x.grad(), w.grad()};
  }
};

TEST_F(BackwardAutocast, SameAsForwardIsTheDefault) {
  auto [x, w] = gradients_of_exact_product();
  EXPECT_THAT(products(), ElementsAre(Dtype::bf16, Dtype::bf16));
  EXPECT_EQ(x.dtype(), Dtype::f32);
  EXPECT_EQ(w.dtype(), Dtype::f32);
}

TEST_F(BackwardAutocast, OffComputesInTheTypesThatAreThere) {
  auto [rough, rough_w] = gradients_of_exact_product();
  products().clear();
  auto flag = config::patch({{"functorch.backward_pass_autocast", "off"}});
  auto [x, w] = gradients_of_exact_product();
  EXPECT_THAT(products(), ElementsAre(Dtype::f32, Dtype::f32));
  EXPECT_FALSE(x.equal(rough));
  EXPECT_LT(distance(x, rough), 0.05);
}

TEST_F(BackwardAutocast, TheLastOfSeveralContextsCounts) {
  for (auto [contexts, type] : {std::pair{"cpu:f16", Dtype::f16},
                                {"cpu:off,cpu:bf16", Dtype::bf16},
                                {"cpu:bf16,cpu:off", Dtype::f32}}) {
    products().clear();
    auto flag = config::patch({{"functorch.backward_pass_autocast", contexts}});
    gradients_of_exact_product();
    EXPECT_EQ(products().size(), 2u) << contexts;
    EXPECT_THAT(products(), Each(type)) << contexts;
  }
}

// What the forward has cast stays cast: the gradient of a bf16 product is made of bf16 products.
TEST_F(BackwardAutocast, CastsOfTheForwardCountWhateverIsSet) {
  auto flag = config::patch({{"functorch.backward_pass_autocast", "off"}});
  auto f = compile([](const Tensor& x, const Tensor& w) { return x.matmul(w); },
                   {.backend = "tells_products"});
  Tensor x = ones({3, 4}).requires_grad_(), w = ones({4, 2}).requires_grad_();
  AutocastGuard guard;
  f(x, w).sum().backward();
  EXPECT_THAT(products(), ElementsAre(Dtype::bf16, Dtype::bf16));
}

TEST_F(BackwardAutocast, WithoutAutocastNothingIsCast) {
  auto f = compile([](const Tensor& x, const Tensor& w) { return x.matmul(w); },
                   {.backend = "tells_products"});
  f(ones({3, 4}).requires_grad_(), ones({4, 2}).requires_grad_()).sum().backward();
  EXPECT_THAT(products(), ElementsAre(Dtype::f32, Dtype::f32));
}

TEST_F(BackwardAutocast, OtherValuesAreAnError) {
  auto flag = config::patch({{"functorch.backward_pass_autocast", "cpu:bf16,tpu:f16"}});
  auto f = compile([](const Tensor& x) { return x.sin(); }, {.backend = "tells_products"});
  std::string message = message_of([&] { f(ones({2}).requires_grad_()); });
  EXPECT_THAT(message, HasSubstr("found 'tpu:f16'"));
}

}  // namespace
}  // namespace tenon
