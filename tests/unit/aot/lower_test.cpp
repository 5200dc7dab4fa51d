// Lowering: the functional graph with its wrapper does what the captured graph does, as far as a
// caller can see: values, strides, what became of the inputs, and who shares memory with whom.
#include "unit/aot/lower_support.h"
#include "unit/message_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/tensor/tensor_impl.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "ops/op_table.h"

#include <tenon/ops.h>
#include <tenon/tree.h>

namespace tenon {
namespace {

using ::testing::HasSubstr;

TEST(Lower, AWriteToAnInputReachesTheCaller) {
  expect_same(R"(
  input %x: f32[2, 3]
  %y: f32[2, 3] = aten.add_.Scalar(%x, 1)
  output %y
)");
}

TEST(Lower, AWriteThroughASliceLeavesTheRest) {
  expect_same(R"(
  input %x: f32[4, 3]
  %v: f32[2, 3] = aten.slice.Tensor(%x, 0, 1, 3)
  %w: f32[2, 3] = aten.mul_.Scalar(%v, 2)
  %sum: f32[4, 3] = aten.add.Tensor(%x, %x)
  output %sum
)");
}

TEST(Lower, AWriteThroughAChainOfViewsReachesTheInput) {
  expect_same(R"(
  input %x: f32[4, 6]
  %t: f32[6, 4] strides [1, 6] = aten.transpose.int(%x, 0, 1)
  %s: f32[6, 2] strides [1, 12] = aten.slice.Tensor(%t, 1, 0, 4, 2)
  %row: f32[2] strides [12] offset 5 = aten.select.int(%s, 0, -1)
  %w: f32[2] strides [12] offset 5 = aten.fill_.Scalar(%row, -7)
  output %row, %x
)");
}

TEST(Lower, OverlappingViewsSeeEachOthersWrites) {
  expect_same(R"(
  input %x: f32[5]
  %a: f32[3] = aten.slice.Tensor(%x, 0, 0, 3)
  %b: f32[3] offset 2 = aten.slice.Tensor(%x, 0, 2, 5)
  %wa: f32[3] = aten.add_.Scalar(%a, 100)
  %wb: f32[3] offset 2 = aten.mul_.Scalar(%b, 2)
  %wc: f32[3] = aten.add_.Tensor(%a, %b)
  %d: f32[3] = aten.add.Tensor(%a, %b)
  output %d, %a, %b
)");
}

TEST(Lower, AWriteToTheBaseIsSeenByViewsMadeBefore) {
  expect_same(R"(
  input %x: f32[2, 2]
  %y: f32[2, 2] = aten.add.Scalar(%x, 1)
  %v: f32[2] = aten.select.int(%y, 0, 1)
  %w: f32[2, 2] = aten.mul_.Scalar(%y, 3)
  %z: f32[2] = aten.add.Scalar(%v, 0)
  output %z
)");
}

TEST(Lower, OutputsThatShareMemoryStillDo) {
  expect_same(R"(
  input %x: f32[2, 2]
  %y: f32[2, 2] = aten.add.Scalar(%x, 1)
  %v: f32[2] = aten.select.int(%y, 0, 1)
  output %y, %v
)");
}

TEST(Lower, OutputsShareMemoryAfterAWriteThroughOneOfThem) {
  expect_same(R"(
  input %x: f32[2, 2]
  %y: f32[2, 2] = aten.add.Scalar(%x, 1)
  %v: f32[2] = aten.select.int(%y, 0, 1)
  %w: f32[2] = aten.add_.Scalar(%v, 5)
  output %y, %v
)");
}

TEST(Lower, TwoViewsOfOneBaseShareMemoryAfterAWrite) {
  expect_same(R"(
  input %x: f32[4]
  %y: f32[4] = aten.add.Scalar(%x, 1)
  %a: f32[3] = aten.slice.Tensor(%y, 0, 0, 3)
  %b: f32[3] = aten.slice.Tensor(%y, 0, 1, 4)
  %w: f32[3] = aten.add_.Scalar(%a, 5)
  output %a, %b
)");
}

TEST(Lower, AsStridedOfAWrittenTransposedInputIsRefused) {
  auto graph = graph_of(R"(
  input %x: f32[2, 3] strides [1, 2]
  %v: f32[4] = aten.as_strided.default(%x, [4], [1], 0)
  %w: f32[4] = aten.add_.Scalar(%v, 1)
  output %x
)");
  EXPECT_THAT(message_of([&] { lower_inference(*graph, {}); }),
              HasSubstr("does not lie row by row"));
}

TEST(Lower, AViewThatTakesASecondTensorIsMadeAnew) {
  expect_same(R"(
  input %x: f32[4]
  input %y: f32[2, 2]
  %v: f32[2, 2] = aten.view_as.default(%x, %y)
  %w: f32[2, 2] = aten.add_.Tensor(%v, %y)
  output %v, %x
)");
}

TEST(Lower, AnInputAsOutputIsThatInput) {
  expect_same(R"(
  input %x: f32[2]
  input %y: f32[2]
  %w: f32[2] = aten.add_.Tensor(%x, %y)
  %v: f32[2] = aten.view.default(%y, [2])
  output %y, %x, %w, %v, %x
)");
}

TEST(Lower, AnOutputGivenTwiceIsOneTensor) {
  expect_same(R"(
  input %x: f32[2]
  %y: f32[2] = aten.add.Scalar(%x, 1)
  output %y, %y
)");
}

TEST(Lower, TwoInputsMayBeSwapped) {
  expect_same(R"(
  input %x: f32[3]
  input %y: f32[3]
  %t: f32[3] = aten.clone.default(%x)
  %a: f32[3] = aten.copy_.default(%x, %y)
  %b: f32[3] = aten.copy_.default(%y, %t)
  output
)");
}

// The copy keeps the value that its source had, whichever input is written back first.
TEST(Lower, ACopyKeepsWhatItsSourceWas) {
  for (const char* order :
       {"input %y: f32[3]\ninput %x: f32[3]\n", "input %x: f32[3]\ninput %y: f32[3]\n"})
    expect_same(std::string(order) + R"(
  %a: f32[3] = aten.copy_.default(%x, %y)
  %b: f32[3] = aten.add_.Scalar(%y, 1)
  output
)");
}

TEST(Lower, ACopyOfAnInputIsATensorOfItsOwn) {
  expect_same(R"(
  input %x: f32[3]
  %e: f32[3] = aten.empty_like.default(%x)
  %c: f32[3] = aten.copy_.default(%e, %x)
  output %c
)");
}

TEST(Lower, AWriteKeepsTheDtypeOfItsTarget) {
  expect_same(R"(
  input %x: f32[2]
  input %y: f64[2]
  %w: f32[2] = aten.add_.Tensor(%x, %y)
  %c: f32[2] = aten.copy_.default(%x, %y)
  output %x
)");
}

TEST(Lower, AWriteKeepsTheStridesOfItsTarget) {
  expect_same(R"(
  input %x: f32[2, 3]
  input %z: f32[3, 2]
  %t: f32[3, 2] strides [1, 3] = aten.t.default(%x)
  %y: f32[3, 2] strides [1, 3] = aten.clone.default(%t)
  %w: f32[3, 2] strides [1, 3] = aten.add_.Tensor(%y, %z)
  %f: f32[3, 2] strides [1, 3] = aten.copy_.default(%y, %z)
  output %y
)");
}

TEST(Lower, AWriteIntoAColumnBroadcastsItsSource) {
  expect_same(R"(
  input %x: f32[2, 3]
  input %one: f32[1]
  %c: f32[2] strides [3] offset 2 = aten.select.int(%x, 1, 2)
  %w: f32[2] strides [3] offset 2 = aten.copy_.default(%c, %one)
  output %c
)");
}

TEST(Lower, PartsOfASplitAreWrittenApart) {
  expect_same(R"(
  input %x: f32[5, 2]
  %a: f32[2, 2], %b: f32[2, 2], %c: f32[1, 2] = aten.split.Tensor(%x, 2)
  %wb: f32[2, 2] = aten.zero_.default(%b)
  %wc: f32[1, 2] = aten.add_.Scalar(%c, 1)
  %s: f32[2, 2] = aten.add.Tensor(%a, %b)
  output %s
)");
}

TEST(Lower, PartsOfOtherSizesAreWrittenApart) {
  for (const char* op : {"aten.split.sizes", "aten.split_with_sizes.default"})
    expect_same(std::string("input %x: f32[2, 5]\n") +
                "%a: f32[2, 1] strides [5, 1], %b: f32[2, 4] strides [5, 1] offset 1 = " + op +
                "(%x, [1, 4], -1)\n" + R"(
  %s: f32[4, 2] strides [1, 5] offset 1 = aten.swapaxes.default(%b, 0, 1)
  %w: f32[4, 2] strides [1, 5] offset 1 = aten.mul_.Scalar(%s, 2)
  output %w
)");
}

TEST(Lower, WritesToElementsOfOnePlaceAreRefused) {
  auto read = [] {
    return graph_of(R"(
  input %x: f32[1, 3]
  %v: f32[2, 3] strides [0, 1] = aten.expand.default(%x, [2, 3])
  %w: f32[2, 3] strides [0, 1] = aten.add_.Scalar(%v, 1)
  output
)");
  };
  EXPECT_THAT(message_of([&] { read(); }), HasSubstr("several elements of self share memory"));
}

TEST(Lower, RowsOfAnUnbindAreWrittenApart) {
  expect_same(R"(
  input %x: f32[2, 3]
  %a: f32[2] strides [3], %b: f32[2] strides [3], %c: f32[2] strides [3] = aten.unbind.int(%x, 1)
  %w: f32[2] strides [3] = aten.mul_.Tensor(%b, %c)
  output %x
)");
}

TEST(Lower, ADiagonalIsWritten) {
  expect_same(R"(
  input %x: f32[3, 3]
  %d: f32[2] strides [4] = aten.diagonal.default(%x, 1)
  %w: f32[2] strides [4] = aten.zero_.default(%d)
  output
)");
}

TEST(Lower, AStridedViewIsWritten) {
  expect_same(R"(
  input %x: f32[7]
  %v: f32[2, 2] strides [3, 2] offset 1 = aten.as_strided.default(%x, [2, 2], [3, 2], 1)
  %w: f32[2, 2] strides [3, 2] offset 1 = aten.add_.Scalar(%v, 100)
  output %v
)");
}

TEST(Lower, InputsWithStridesKeepThem) {
  expect_same(R"(
  input %x: f32[2, 3] strides [1, 2]
  %v: f32[3] strides [2] offset 1 = aten.select.int(%x, 0, 1)
  %w: f32[3] strides [2] = aten.add_.Scalar(%v, 1)
  %y: f32[2, 3] strides [1, 2] = aten.add.Scalar(%x, 1)
  output %v, %y
)");
}

TEST(Lower, ADetachedTensorSharesMemory) {
  expect_same(R"(
  input %x: f32[3]
  %d: f32[3] = aten.detach.default(%x)
  %w: f32[3] = aten.add_.Scalar(%d, 1)
  %y: f32[3] = aten.mul.Tensor(%x, %x)
  output %y, %d
)");
}

TEST(Lower, ATemporaryMayChangeItsShapeInPlace) {
  expect_same(R"(
  input %x: f32[2, 3]
  %y: f32[2, 3] = aten.add.Scalar(%x, 1)
  %v: f32[3] offset 3 = aten.select.int(%y, 0, 1)
  %t: f32[3, 2] strides [1, 3] = aten.t_.default(%y)
  %u: f32[3, 1, 2] strides [1, 6, 3] = aten.unsqueeze_.default(%t, 1)
  %w: f32[3, 1, 2] strides [1, 6, 3] = aten.mul_.Scalar(%u, 2)
  output %w, %v
)");
}

TEST(Lower, AViewMayChangeItsShapeInPlace) {
  expect_same(R"(
  input %x: f32[2, 3]
  %v: f32[2, 2] strides [3, 1] = aten.slice.Tensor(%x, 1, 0, 2)
  %t: f32[2, 2] strides [1, 3] = aten.transpose_.default(%v, 0, 1)
  %w: f32[2, 2] strides [1, 3] = aten.mul_.Scalar(%t, 10)
  output %w
)");
}

TEST(Lower, AnInputThatChangesItsShapeInPlaceDoesSoForTheCaller) {
  expect_same(R"(
  input %x: f32[2, 3]
  %w: f32[2, 3] = aten.add_.Scalar(%x, 1)
  %t: f32[3, 2] strides [1, 3] = aten.t_.default(%x)
  %r: f32[2] = aten.select.int(%x, 0, 1)
  output %r
)");
}

TEST(Lower, IndexedAndMaskedWritesAreFunctional) {
  expect_same(R"(
  input %x: f32[2, 3]
  input %v: f32[3]
  constant %i: i64[1] = [1]
  %m: bool[2, 3] = aten.gt.Scalar(%x, 2)
  %w: f32[2, 3] = aten.masked_fill_.Scalar(%x, %m, -1)
  %p: f32[2, 3] = aten.index_put_.default(%x, [%i], %v, true)
  output %p
)");
}

TEST(Lower, DeadWritesToTemporariesDisappear) {
  auto graph = graph_of(R"(
  input %x: f32[3]
  %y: f32[3] = aten.add.Scalar(%x, 1)
  %w: f32[3] = aten.mul_.Scalar(%y, 2)
  output %x
)");
  EXPECT_EQ(lower_inference(*graph, {}).graph->nodes().size(), 0u);
}

TEST(Lower, BatchNormInTrainingMovesItsStatistics) {
  expect_same(R"(
  input %x: f32[4, 2]
  input %mean: f32[2]
  input %var: f32[2]
  %y: f32[4, 2] = aten.batch_norm.default(%x, none, none, %mean, %var, true, 0.1, 1e-05, false)
  %z: f32[4, 2] = aten.batch_norm.default(%x, none, none, %mean, %var, true, 0.1, 1e-05, false)
  output %y
)");
}

TEST(Lower, BatchNormWithoutAReaderStillMovesItsStatistics) {
  expect_same(R"(
  input %x: f32[4, 2]
  input %mean: f32[2]
  input %var: f32[2]
  %y: f32[4, 2] = aten.batch_norm.default(%x, none, none, %mean, %var, true, 0.1, 1e-05, false)
  output %x
)");
}

TEST(Lower, DropoutDrawsAsOftenAsItIsCalled) {
  auto graph = graph_of(R"(
  input %x: f32[64]
  %a: f32[64] = aten.dropout.default(%x, 0.5, true)
  %b: f32[64] = aten.dropout.default(%x, 0.5, true)
  %d: f32[64] = aten.sub.Tensor(%a, %b)
  output %d
)");
  Lowered lowered = lower_inference(*graph, {});
  auto wrapped = wrap_inference(lowered, interpreter_artifact(lowered.graph));
  EXPECT_GT(call(*wrapped, *graph).outputs[0].abs().sum().item<float>(), 0.0f);
}

TEST(Lower, DropoutOutsideOfTrainingIsItsInput) {
  expect_same(R"(
  input %x: f32[4]
  %a: f32[4] = aten.dropout.default(%x, 0.5, false)
  %w: f32[4] = aten.add_.Scalar(%a, 1)
  output %a
)");
}

TEST(Lower, InputsThatOverlapAreOneInputOnlyWhenWritten) {
  const std::string inputs = "input %x: f32[3] alias 1\ninput %y: f32[3] alias 1\n";
  std::string pure = inputs + "%z: f32[3] = aten.add.Tensor(%x, %y)\noutput %z\n";
  std::string writes = inputs + "%z: f32[3] = aten.add_.Tensor(%x, %y)\noutput %z\n";
  EXPECT_EQ(lower_inference(*graph_of(pure), {}).graph->inputs().size(), 2u);
  Lowered lowered = lower_inference(*graph_of(writes), {});
  EXPECT_EQ(lowered.graph->inputs().size(), 1u);
  EXPECT_THAT(lowered.shared[0].members, testing::ElementsAre(0, 1));
}

TEST(Lower, InputsOfOneStorageThatDoNotOverlapStayApart) {
  auto graph = graph_of(R"(
  input %x: f32[3] alias 1
  input %y: f32[3] offset 3 alias 1
  %z: f32[3] = aten.add_.Tensor(%x, %y)
  output %z
)");
  EXPECT_EQ(lower_inference(*graph, {}).graph->inputs().size(), 2u);
}

}  // namespace
}  // namespace tenon
