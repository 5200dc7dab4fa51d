// Decomposition sets: which ops a backend gets taken apart.
#include "aot/lower.h"

#include <gmock/gmock.h>

#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "ops/op_table.h"

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

}  // namespace
}  // namespace tenon
