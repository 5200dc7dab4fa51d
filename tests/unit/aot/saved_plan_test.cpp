// What stands around lowered code as text: the views that are made again on the tape.
#include "aot/saved_plan.h"

#include "graph/text/parse.h"
#include "unit/graph/graph_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using testing::HasSubstr;

std::string plan_of(const std::string& body) {
  auto graph = graph_of(body);
  Lowered lowered = lower_training(*graph, {.training = true});
  std::string text = plan_text(lowered);
  Lowered read = read_plan(text, lowered.graph, graph->inputs().size(), "a plan");
  EXPECT_EQ(plan_text(read), text);
  return text;
}

TEST(SavedPlan, KeepsViewsWithSizesOfTheCall) {
  std::string plan = plan_of(R"(
  symbol s0 in [3, inf] hint 3 from size(%x, 0)
  input %x: f32[s0, 2] strides [0, 1] requires_grad alias 1
  %square: f32[s0, 2] requires_grad = aten.mul.Tensor(%x, %x)
  %rows: f32[s0 - 1, 2] strides [0, 1] requires_grad alias 1 = aten.slice.Tensor(%x, 0, 0, s0 - 1)
  %flat: f32[2, s0] strides [1, 0] requires_grad alias 1 = aten.numpy_T.default(%x)
  output %square, %rows, %flat)");
  EXPECT_THAT(plan, HasSubstr(R"("op":"aten.slice.Tensor","args":[[0],[5,0],[5,0],[5,"s0 - 1"])"));
  EXPECT_THAT(plan, HasSubstr(R"("op":"aten.numpy_T.default")"));
}

TEST(SavedPlan, KeepsWhereTheTapeLeads) {
  std::string plan = plan_of(R"(
  input %x: f32[3] requires_grad
  input %y: f32[3] requires_grad
  %twice: f32[3] requires_grad = aten.mul.Scalar(%y, 2)
  %sign: f32[3] requires_grad = aten.sign.default(%x)
  %square: f32[3] requires_grad = aten.mul.Tensor(%x, %x)
  output %twice, %sign, %square)");
  EXPECT_THAT(plan, HasSubstr(R"("reached":[[1],[0],[0]])"));
}

TEST(SavedPlan, KeepsTheSizesOfOtherTensors) {
  std::string plan = plan_of(R"(
  input %x: f32[3, 2] strides [0, 1] requires_grad alias 1
  input %like: f32[4, 3, 2]
  %square: f32[3, 2] requires_grad = aten.mul.Tensor(%x, %x)
  %wide: f32[4, 3, 2] strides [0, 0, 1] requires_grad alias 1 = aten.expand_as.default(%x, %like)
  output %square, %wide)");
  EXPECT_THAT(plan, HasSubstr(R"("op":"aten.expand.default","args":[[0],)"));
}

}  // namespace
}  // namespace tenon
