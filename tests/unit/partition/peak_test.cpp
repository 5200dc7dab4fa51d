// The memory that halves need at once, and that it falls with the budget.
#include "partition/peak.h"
#include "small_graph.h"

#include <gtest/gtest.h>

namespace tenon::partition::tests {
namespace {

// y = tanh(mm(...tanh(mm(x)))): each product's result is wanted in the backward.
SmallGraph deep(int layers) {
  SmallGraph g;
  g.primal("x", 1 << 20);
  for (int i = 0; i < layers; ++i) g.parameter("w" + std::to_string(i), 1 << 10);
  g.tangent("t", 1 << 20);
  std::string at = "x";
  for (int i = 0; i < layers; ++i) {
    std::string n = std::to_string(i);
    g.call("m" + n, "aten.mm.default", {at, "w" + n}, 1 << 20);
    g.call("a" + n, "aten.tanh.default", {"m" + n}, 1 << 20);
    at = "a" + n;
  }
  std::string grad = "t";
  for (int i = layers; i-- > 0;) {
    std::string n = std::to_string(i);
    g.call("d" + n, "aten.tanh_backward.default", {grad, "a" + n}, 1 << 20);
    g.call("g" + n, "aten.mm.default", {"d" + n, "w" + n}, 1 << 20);
    grad = "g" + n;
  }
  Names gradients(static_cast<size_t>(layers) + 1, "-");
  gradients[0] = grad;
  g.outputs({at}, gradients);
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
