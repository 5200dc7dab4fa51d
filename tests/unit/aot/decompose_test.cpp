// Decomposition sets: which ops a backend gets taken apart.
#include "aot/lower.h"

#include <gmock/gmock.h>

#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "ops/decompose.h"
#include "ops/op_table.h"

#include <tenon/tenon.h>

namespace tenon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

TEST(Decompose, DecompositionSetsTakeApartWhatIsNotCore) {
  auto set = decomposition_set("core_aten", {});
  auto taken = [&](const char* op) { return set(entry_of(op_id(op))); };
  EXPECT_TRUE(taken("aten.silu.default"));
  EXPECT_FALSE(taken("aten.add.Tensor"));
  EXPECT_FALSE(taken("aten.add_.Tensor"));
  EXPECT_FALSE(decomposition_set("none", {}));
  auto listed = decomposition_set("list", {"aten.silu.default"});
  EXPECT_TRUE(listed(entry_of(op_id("aten.silu.default"))));
  EXPECT_FALSE(listed(entry_of(op_id("aten.gelu.default"))));
  EXPECT_THAT([] { decomposition_set("all", {}); },
              ThrowsMessage<UserError>(HasSubstr("no decomposition set 'all'")));
}

TEST(Decompose, WhatASetTakesApartIsGone) {
  auto graph = parse_graph(R"(tng 1
graph {
  input %x: f32[4]
  %y: f32[4] = aten.silu.default(%x)
  output %y
}
)");
  LowerOptions options;
  options.decomposes = decomposition_set("core_aten", {});
  EXPECT_THAT(to_text(*lower_inference(*graph, options).graph), Not(HasSubstr("silu")));
}

TEST(Decompose, MaskedFillKeepsTheOrderOfItsInput) {
  Tensor mask = ones({4, 3}, Dtype::bool_), value = full({}, 2.0);
  for (const Tensor& x : {ones({3, 4}).t(), ones({4, 3}), ones({3, 1}).expand({3, 4}).t()}) {
    Value number[] = {Value::of(x), Value::of(mask), Value::of(Number(2))};
    Value tensor[] = {Value::of(x), Value::of(mask), Value::of(value)};
    Value results[2];
    decompose({&entry_of(op_id("aten.masked_fill.Scalar")), number, &results[0], 3, 1});
    decompose({&entry_of(op_id("aten.masked_fill.Tensor")), tensor, &results[1], 3, 1});
    for (Value& result : results) {
      Tensor filled = take<Tensor>(result), expected = masked_fill(x, mask, 2);
      EXPECT_EQ(to_text(filled.strides()), to_text(expected.strides()));
      EXPECT_TRUE(equal(filled, expected));
    }
  }
}

}  // namespace
}  // namespace tenon
