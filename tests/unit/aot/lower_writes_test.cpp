// Lowering of ops that write something else than self, or have no functional row.
#include "unit/aot/lower_support.h"
#include "unit/message_of.h"

#include <gmock/gmock.h>

#include <tenon/allow_in_graph.h>

namespace tenon {
namespace {

using ::testing::HasSubstr;

TEST(LowerWrites, OutArgumentsAreResultsThatAreWritten) {
  expect_same(R"(
  input %x: f32[2, 3]
  input %y: f32[3, 2]
  input %o: f64[4, 2]
  %part: f64[2, 2] offset 2 = aten.slice.Tensor(%o, 0, 1, 3)
  %w: f64[2, 2] offset 2 = aten.mm.out(%x, %y, %part)
  %z: f64[4, 2] = aten.add.Scalar(%o, 1)
  output %z, %w
)");
}

TEST(LowerWrites, ARowsInverseIsAllThatAViewNeeds) {
  expect_same(R"(
  input %x: f32[2, 3, 4]
  %v: f32[4, 2, 3] strides [1, 12, 4] = aten.moveaxis.intlist(%x, [2], [0])
  %w: f32[4, 2, 3] strides [1, 12, 4] = aten.mul_.Scalar(%v, 2)
  %z: f32[2, 3, 4] = aten.add.Tensor(%x, %x)
  output %z
)");
}

TEST(LowerWrites, AnOutArgumentMayBeAnOperand) {
  expect_same(R"(
  input %x: f32[2, 2]
  %w: f32[2, 2] = aten.mm.out(%x, %x, %x)
  output %w
)");
}

TEST(LowerWrites, OpsWithoutAFunctionalRowRunOnCopies) {
  expect_same(R"(
  input %x: f32[4, 3]
  %i: i64[2] = aten.arange.default(2)
  %t: f32[3, 4] strides [1, 3] = aten.transpose.int(%x, 0, 1)
  %v: f32[3, 3] = aten.slice.Tensor(%x, 0, 0, 3)
  %w: f32[3, 3] = aten.embedding_renorm_.default(%v, %i, 1.5, 2.0)
  %z: f32[3, 4] strides [1, 3] = aten.add.Scalar(%t, 0)
  output %z, %w
)");
}

// Ops that a program adds are opened while the graph is lowered; what their parts write is, too.
TEST(LowerWrites, PartsOfAnAddedOpAreFunctional) {
  compiler::allow_in_graph("lower_writes::fill", [](const Tensor& x) {
    Tensor t = zeros(x.sizes());
    t.slice(0, 0, 1).copy_(x.slice(0, 0, 1));
    return t;
  });
  std::string text = R"(
  input %x: f32[3]
  %a: f32[3] = lower_writes.fill.default(%x)
  %w: f32[3] = aten.add_.Tensor(%x, %a)
  output %a
)";
  expect_same(text);
  for (bool keeps : {false, true}) {
    Lowered lowered = lower_inference(*graph_of(text), {.keep_input_mutations = keeps});
    size_t n_writes = 0;
    for (const Node& node : lowered.graph->nodes()) n_writes += written_args(node) != 0;
    EXPECT_EQ(n_writes, keeps) << to_text(*lowered.graph);
    EXPECT_EQ(lowered.mutated_inputs.size(), keeps);
  }
}

TEST(LowerWrites, PartsOfAnAddedOpWriteNoArgument) {
  compiler::allow_in_graph("lower_writes::changes", [](const Tensor& x) {
    Tensor part = x.slice(0, 0, 1);
    part.add_(1);
    return x * 2;
  });
  auto graph = graph_of(R"(
  input %x: f32[3]
  %a: f32[3] = lower_writes.changes.default(%x)
  output %a
)");
  EXPECT_THAT(message_of([&] { lower_inference(*graph, {}); }),
              HasSubstr("let them write a clone of it"));
}

TEST(LowerWrites, SeveralArgumentsAreWritten) {
  expect_same(R"(
  input %x: f32[2, 3, 4]
  input %m: f32[3]
  input %s: f32[3]
  %y: f32[2, 3, 4], %a: f32[3], %b: f32[3], %r: u8[0] = aten._batch_norm_with_update.default(%x, none, none, %m, %s, 0.1, 1e-05)
  %n: f32[3] = aten.add.Tensor(%m, %s)
  output %y, %a, %b, %n
)");
}

TEST(LowerWrites, OutFormsThatUpdateStatisticsWriteTheirResultsToo) {
  expect_same(R"(
  input %x: f32[2, 3, 4]
  input %m: f32[3]
  input %s: f32[3]
  input %o: f32[4, 3, 4]
  input %p: f32[8]
  %y: f32[2, 3, 4] offset 12 = aten.slice.Tensor(%o, 0, 1, 3)
  %a: f32[3] offset 1 = aten.slice.Tensor(%p, 0, 1, 4)
  %b: f32[3] offset 5 = aten.slice.Tensor(%p, 0, 5, 8)
  %t: f32[2, 3, 4] offset 12, %u: f32[3] offset 1, %v: f32[3] offset 5 = aten.native_batch_norm.out(%x, none, none, %m, %s, true, 0.1, 1e-05, %y, %a, %b)
  %z: f32[4, 3, 4] = aten.add.Scalar(%o, 1)
  output %z, %p
)");
}

// What another value sees, too, would miss the write.
TEST(LowerWrites, OutArgumentsOfOtherSizesHaveNoElements) {
  auto by_data = graph_of(R"(
  input %x: f32[3]
  %b: i64[5, 1] = aten.zeros.default([5, 1], i64)
  %v: i64[3, 1] offset 1 = aten.slice.Tensor(%b, 0, 1, 4)
  %w: i64[3, 1] offset 1 = aten.nonzero.out(%x, %v)
  output %b
)");
  EXPECT_THAT(message_of([&] { lower_inference(*by_data, {}); }),
              HasSubstr("aten.nonzero.out gives its argument out sizes that data decides"));
  auto empty_view = graph_of(R"(
  input %x: f32[2, 2]
  %b: f32[4, 2] = aten.zeros.default([4, 2])
  %v: f32[0, 2] offset 2 = aten.slice.Tensor(%b, 0, 1, 1)
  %w: f32[2, 2] offset 2 = aten.mm.out(%x, %x, %v)
  output %b
)");
  EXPECT_THAT(message_of([&] { lower_inference(*empty_view, {}); }),
              HasSubstr("aten.mm.out gives its argument out other sizes"));
}

TEST(LowerWrites, NormalisedInstancesUpdateStatistics) {
  expect_same(R"(
  input %x: f32[2, 3, 4]
  input %m: f32[3]
  input %s: f32[8]
  %v: f32[3] offset 1 = aten.slice.Tensor(%s, 0, 1, 4)
  %y: f32[2, 3, 4] = aten.instance_norm.default(%x, none, none, %m, %v, true, 0.1, 1e-05, false)
  %z: f32[8] = aten.add.Scalar(%s, 1)
  output %y, %z
)");
}

TEST(LowerWrites, AViewMayBeginWhereATensorSays) {
  expect_same(R"(
  input %x: f32[20, 3]
  input %s: i64[]
  %y: f32[2, 3] = aten.narrow.Tensor(%x, 0, %s, 2)
  %z: f32[2, 3] = aten.mul.Scalar(%y, 2)
  output %y, %z
)");
}

TEST(LowerWrites, AFunctionalFormIsFoundByItsName) {
  const OpEntry* form = find_op("tenon.functional_aten_embedding_renorm_.default");
  ASSERT_NE(form, nullptr);
  EXPECT_EQ(form, find_op("tenon.functional_aten_embedding_renorm_.default"));
  EXPECT_EQ(form->mutated_args, 0u);
  EXPECT_EQ(find_op("tenon.functional_aten_add.Tensor"), nullptr);
  EXPECT_EQ(find_op("tenon.functional_"), nullptr);
}

TEST(LowerWrites, ATensorThatShrinksKeepsItsMemory) {
  expect_same(R"(
  input %x: f32[2, 3]
  %y: f32[2, 3] = aten.add.Scalar(%x, 1)
  %v: f32[3] offset 3 = aten.select.int(%y, 0, 1)
  %r: f32[2, 2] = aten.resize_.default(%y, [2, 2])
  %w: f32[2, 2] = aten.mul_.Scalar(%r, 10)
  output %w, %v
)");
  expect_same(R"(
  input %x: f32[2, 3]
  input %like: i64[3, 1]
  %r: f32[3, 1] = aten.resize_as_.default(%x, %like)
  %w: f32[3, 1] = aten.mul_.Scalar(%x, 10)
  output %w
)");
}

TEST(LowerWrites, AViewShrinksFromWhereItBegins) {
  expect_same(R"(
  input %x: f32[2, 3]
  %y: f32[2, 3] = aten.add.Scalar(%x, 1)
  %t: f32[3, 2] strides [1, 3] = aten.transpose.int(%y, 0, 1)
  %v: f32[2, 2] strides [1, 3] offset 1 = aten.slice.Tensor(%t, 0, 1, 3)
  %r: f32[3] offset 1 = aten.resize_.default(%v, [3])
  %w: f32[3] offset 1 = aten.mul_.Scalar(%r, 10)
  %z: f32[2, 3] = aten.add.Scalar(%y, 0)
  output %w, %z
)");
}

TEST(LowerWrites, AViewByPlaceShowsMoreThanTheViewThatItIsTakenOf) {
  expect_same(R"(
  input %x: f32[2, 3]
  %y: f32[2, 3] = aten.add.Scalar(%x, 1)
  %r: f32[3] = aten.select.int(%y, 0, 0)
  %s: f32[5] = aten.as_strided.default(%r, [5], [1])
  %w: f32[5] = aten.mul_.Scalar(%s, 10)
  %z: f32[2, 3] = aten.add.Scalar(%y, 0)
  output %w, %z, %r
)");
}

TEST(LowerWrites, ATensorThatGrowsBeginsWithItsElements) {
  expect_same(R"(
  input %x: f32[2, 3]
  %y: f32[2, 3] = aten.add.Scalar(%x, 1)
  %r: f32[2, 4] = aten.resize_.default(%y, [2, 4])
  %w: f32[2, 4] = aten.mul_.Scalar(%y, 10)
  %f: f32[8] = aten.view.default(%r, [8])
  %s: f32[6] = aten.slice.Tensor(%f, 0, 0, 6)
  %z: f32[6] = aten.add.Scalar(%s, 1)
  output %z
)");
}

TEST(LowerWrites, AnEmptyOutArgumentGetsTheSizesOfTheResult) {
  expect_same(R"(
  input %x: f32[2, 3]
  input %y: f32[3, 2]
  %o: f32[0] = aten.empty.memory_format([0], dtype=f32)
  %w: f32[2, 2] = aten.mm.out(%x, %y, %o)
  %z: f32[2, 2] = aten.add.Scalar(%w, 1)
  output %z, %w
)");
}

TEST(LowerWrites, AnArgumentDoesNotGetOtherMemory) {
  auto refusal = [](const std::string& body) {
    auto graph = graph_of(body);
    return message_of([&] { lower_inference(*graph, {}); });
  };
  EXPECT_THAT(refusal(R"(
  input %x: f32[2, 3]
  %w: f32[7] = aten.resize_.default(%x, [7])
  output %w
)"),
              HasSubstr("an argument grows beyond its memory"));
  EXPECT_THAT(refusal(R"(
  input %x: f32[2, 3]
  input %y: f32[3, 2]
  input %o: f32[0]
  %w: f32[2, 2] = aten.mm.out(%x, %y, %o)
  output %w
)"),
              HasSubstr("aten.mm.out gives its argument out other sizes"));
}

}  // namespace
}  // namespace tenon
