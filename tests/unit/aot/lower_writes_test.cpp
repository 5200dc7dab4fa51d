// Lowering of ops that write something else than self, or have no functional row.
#include "unit/aot/lower_support.h"
#include "unit/message_of.h"

#include <gmock/gmock.h>

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

TEST(LowerWrites, OtherSizesOfAWrittenArgumentAreRefused) {
  auto graph = graph_of(R"(
  input %x: f32[2, 3]
  %w: f32[4] = aten.resize_.default(%x, [4])
  output %w
)");
  EXPECT_THAT(message_of([&] { lower_inference(*graph, {}); }),
              HasSubstr("aten.resize_.default gives its argument self other sizes"));
}

}  // namespace
}  // namespace tenon
