// compiler.partition_cost: memory counted once a storage, and the least memory at once.
#include "unit/partition/small_graph.h"
#include "unit/partition/tests_of_partition.h"

#include "partition/peak.h"
#include "partition/storage_cost.h"

#include <tenon/config.h>

#include <gmock/gmock.h>

namespace tenon::partition::tests {
namespace {

// Without storages of inputs and results: what the cut has decided on.
int64_t kept_bytes(const JointGraph& graph, const Partition& cut) {
  return bytes_by_storage(WorkGraph(graph, true), cut.saved);
}

class StorageCost : public testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StorageCost);

TEST_P(StorageCost, NeverKeepsMoreThanPytorch) {
  RecordedGraph recorded(GetParam());
  auto patch = config::patch({{"compiler.partition_cost", "storage"}});
  Partition cut = min_cut_partition(recorded.graph, PartitionOptions::from_flags());
  EXPECT_LE(kept_bytes(recorded.graph, cut),
            recorded.result("min_cut").field("activation_bytes_unique").integer());
}

TEST_P(StorageCost, OfLeastPeakNeedsNoMoreThanTheOthers) {
  RecordedGraph recorded(GetParam());
  std::map<std::string, int64_t> peaks;
  for (std::string cost : {"storage", "peak"}) {
    auto patch = config::patch({{"compiler.partition_cost", cost}});
    peaks[cost] = peak_bytes(
        recorded.graph, partition_of_least_peak(recorded.graph, PartitionOptions::from_flags()));
  }
  EXPECT_LE(peaks["peak"], peaks["storage"]);
}

INSTANTIATE_TEST_SUITE_P(All, StorageCost, testing::ValuesIn(recorded_graphs()), test_name_of);

// Two products read two transposed views of one activation: PyTorch pays for both views, or for the
// activation besides.
SmallGraph two_views() {
  SmallGraph g;
  g.primal("x", 4096).parameter("w", 64).tangent("t", 4096);
  g.call("m", "aten.mm.default", {"x", "w"}, 4096);
  g.call("v", "aten.permute.default", {"m"}, 4096).call("u", "aten.view.default", {"m"}, 4096);
  g.call("y", "aten.mm.default", {"v", "u"}, 4096);
  g.call("dv", "aten.mm.default", {"t", "u"}, 4096);
  g.call("dx", "aten.mm.default", {"dv", "v"}, 4096);
  g.outputs({"y"}, {"dx", "-"});
  for (const char* name : {"m", "v", "u"}) g.node(name).storage = 77;
  return g;
}

TEST(StorageCosts, CountViewsOfOneMemoryOnce) {
  SmallGraph g = two_views();
  PartitionOptions options;
  options.cost = "storage";
  Partition cut = min_cut_partition(g.graph(), options);
  EXPECT_EQ(kept_bytes(g.graph(), cut), 4096);
  EXPECT_EQ(cut.cut_value, 4096 * 1024 + static_cast<int64_t>(cut.saved.size()));
}

}  // namespace
}  // namespace tenon::partition::tests
