// Inputs that lie otherwise than their graph promises.
#include "model/input_layout.h"

#include "core/error.h"
#include "core/sym/shape_env.h"
#include "graph/text/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tenon/ops.h>

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* columns = R"(tng 1
graph @f {
  input %x: f32[2, 3] strides [1, 2]
  %y: f32[2, 3] strides [1, 2] = aten.relu.default(%x)
  output %y
}
)";

Tensor counted() { return arange(6, Dtype::f32).reshape({2, 3}); }

std::vector<float> memory_of(const detail::TensorHead* head) {
  const auto* data = static_cast<const float*>(head->data);
  return {data, data + head->numel};
}

TEST(InputLayout, CopiesWhatLiesOtherwise) {
  std::shared_ptr<Graph> graph = parse_graph(columns);
  Tensor x = counted();
  std::vector<detail::TensorHead*> heads{x.head()};
  LaidOutInputs inputs(*graph, heads, {});
  EXPECT_NE(inputs.heads()[0], x.head());
  EXPECT_EQ(inputs.heads()[0]->strides[0], 1);
  EXPECT_THAT(memory_of(inputs.heads()[0]), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(InputLayout, LeavesAloneWhatLiesAsPromised) {
  std::shared_ptr<Graph> graph = parse_graph(columns);
  Tensor x = counted().t().contiguous().t();
  std::vector<detail::TensorHead*> heads{x.head()};
  EXPECT_EQ(LaidOutInputs(*graph, heads, {}).heads()[0], x.head());
}

TEST(InputLayout, StridesOfSingleElementsMeanNothing) {
  std::shared_ptr<Graph> graph = parse_graph(R"(tng 1
graph @f {
  input %x: f32[1, 3]
  output %x
}
)");
  Tensor x = counted().narrow(0, 0, 1).t().contiguous().t();
  std::vector<detail::TensorHead*> heads{x.head()};
  EXPECT_EQ(LaidOutInputs(*graph, heads, {}).heads()[0], x.head());
}

TEST(InputLayout, StridesOfEmptyTensorsMeanNothing) {
  std::shared_ptr<Graph> graph = parse_graph(R"(tng 1
graph @f {
  symbol s0 in [0, 0] hint 0 from size(%x, 1)
  input %x: f32[4, s0] strides [s0, 1]
  output %x
}
)");
  Tensor x = zeros({4, 0});
  std::vector<int64_t> symbols{0};
  std::vector<detail::TensorHead*> heads{x.head()};
  EXPECT_EQ(LaidOutInputs(*graph, heads, symbols).heads()[0], x.head());
}

TEST(InputLayout, SymbolsInStridesHaveTheirValues) {
  std::shared_ptr<Graph> graph = parse_graph(R"(tng 1
graph @f {
  symbol s0 in [2, 9] hint 3 from size(%x, 1)
  input %x: f32[2, s0]
  output %x
}
)");
  Tensor x = counted(), turned = x.t().contiguous().t();
  std::vector<int64_t> symbols{3};
  std::vector<detail::TensorHead*> dense{x.head()}, columns_first{turned.head()};
  EXPECT_EQ(LaidOutInputs(*graph, dense, symbols).heads()[0], x.head());
  LaidOutInputs inputs(*graph, columns_first, symbols);
  EXPECT_THAT(memory_of(inputs.heads()[0]), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(InputLayout, SymbolsHaveTheirValuesWithinAnotherTrace) {
  std::shared_ptr<Graph> graph = parse_graph(R"(tng 1
graph @f {
  symbol s0 in [2, 9] hint 3 from size(%x, 1)
  input %x: f32[2, s0]
  output %x
}
)");
  Tensor x = counted();
  std::vector<int64_t> symbols{3};
  std::vector<detail::TensorHead*> heads{x.head()};
  std::shared_ptr<ShapeEnv> other = ShapeEnv::make();
  ShapeEnvScope scope(*other);
  EXPECT_EQ(LaidOutInputs(*graph, heads, symbols).heads()[0], x.head());
}

TEST(InputLayout, WhatTheGraphWritesIsWrittenBack) {
  std::shared_ptr<Graph> graph = parse_graph(R"(tng 1
graph @f {
  input %x: f32[2, 3] strides [1, 2]
  input %y: f32[2, 3] strides [1, 2]
  %z: f32[2, 3] strides [1, 2] = aten.relu_.default(%x)
  output %z
}
)");
  Tensor x = counted(), y = counted();
  std::vector<detail::TensorHead*> heads{x.head(), y.head()};
  LaidOutInputs inputs(*graph, heads, {});
  for (detail::TensorHead* head : inputs.heads()) static_cast<float*>(head->data)[1] = -7;
  inputs.write_back();
  EXPECT_THAT(memory_of(x.head()), ElementsAre(0, 1, 2, -7, 4, 5));
  EXPECT_THAT(memory_of(y.head()), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(InputLayout, ElementsThatAreOneInMemoryAreNotMadeOfOthers) {
  std::shared_ptr<Graph> graph = parse_graph(R"(tng 1
graph @f {
  input %x: f32[2, 3] strides [0, 1]
  output %x
}
)");
  Tensor x = counted();
  std::vector<detail::TensorHead*> heads{x.head()};
  try {
    LaidOutInputs inputs(*graph, heads, {});
    FAIL() << "expected an error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("dimension 0"));
  }
}

}  // namespace
}  // namespace tenon
