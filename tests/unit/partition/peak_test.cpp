// The memory that halves need at once, and that it falls with the budget.
#include "partition/peak.h"
#include "small_graph.h"

#include <gtest/gtest.h>

namespace tenon::partition::tests {
namespace {

// Layers of two products with a wide gelu between them, whose input the backward wants.
SmallGraph deep(int layers) {
  constexpr int64_t narrow = 1 << 18, wide = 1 << 20;
  SmallGraph g;
  g.primal("x", narrow).parameter("up", 1 << 10).parameter("down", 1 << 10);
  g.tangent("t", narrow);
  std::string at = "x";
  for (int i = 0; i < layers; ++i) {
    std::string n = std::to_string(i);
    g.call("u" + n, "aten.mm.default", {at, "up"}, wide);
    g.call("a" + n, "aten.gelu.default", {"u" + n}, wide);
    g.call("y" + n, "aten.mm.default", {"a" + n, "down"}, narrow);
    at = "y" + n;
  }
  std::string grad = "t";
  for (int i = layers; i-- > 0;) {
    std::string n = std::to_string(i);
    g.call("da" + n, "aten.mm.default", {grad, "down"}, wide);
    g.call("du" + n, "aten.gelu_backward.default", {"da" + n, "u" + n}, wide);
    g.call("dx" + n, "aten.mm.default", {"du" + n, "up"}, narrow);
    grad = "dx" + n;
  }
  g.outputs({at}, {grad, "-", "-"});
  return g;
}

TEST(Peak, OfAChainIsWhatIsKeptAndWhatIsAtWork) {
  SmallGraph g;
  g.primal("x").tangent("t").call("s", "aten.sin.default", {"x"});
  g.call("c", "aten.cos.default", {"s"}).call("d", "aten.mul.Tensor", {"t", "s"});
  g.outputs({"c"}, {"d"});
  Partition cut = default_partition(g.graph(), {});
  // Forward: s, then c beside it. Backward: s, then d beside it.
  EXPECT_EQ(peak_bytes(g.graph(), cut), 2048);
}

TEST(Peak, NeverGrowsWhenTheBudgetFalls) {
  SmallGraph g = deep(12);
  int64_t before = std::numeric_limits<int64_t>::max(), all_at_once = 0;
  for (double budget : {1.0, 0.75, 0.5, 0.25, 0.1, 0.0}) {
    PartitionOptions options;
    options.memory_budget = budget;
    int64_t peak = peak_bytes(g.graph(), partition_of_least_peak(g.graph(), options));
    EXPECT_LE(peak, before) << budget;
    before = peak;
    if (budget == 0) all_at_once = peak_bytes(g.graph(), min_cut_partition(g.graph(), options));
  }
  // Keeping nothing recomputes all at the beginning of the backward.
  EXPECT_LT(before, all_at_once);
}

}  // namespace
}  // namespace tenon::partition::tests
