// Regions against a brute force over all paths: convex, in an order that runs, as few as can be;
// and what memory, effects and symbols forbid.
#include "graph/regions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "graph/text/parse.h"
#include "ops/op_table.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;

using Set = std::vector<bool>;
constexpr Support no = Support::no, yes = Support::yes, fused = Support::if_fused;

/// A graph whose node n reads the given earlier nodes (a `cat` each, of an input where there are
/// none).
std::shared_ptr<Graph> dag(const std::vector<std::vector<NodeId>>& reads) {
  auto graph = std::make_shared<Graph>();
  GraphValue value;
  value.meta = contiguous_meta(IntList{2}, Dtype::f32);
  ValueId input = graph->add_input(value);
  for (const std::vector<NodeId>& from : reads) {
    std::vector<ValueId> ids;
    for (NodeId n : from) ids.push_back(graph->node(n).first_result);
    if (ids.empty()) ids.push_back(input);
    Value args[] = {graph->intern_refs(ids), Value::of(int64_t{0})};
    graph->add_node(op_id("aten.cat.default"), args, {value});
  }
  graph->set_outputs({static_cast<ValueId>(graph->values().size() - 1)});
  return graph;
}

std::vector<std::vector<NodeId>> random_reads(std::mt19937& random, size_t n, size_t most) {
  std::vector<std::vector<NodeId>> reads(n);
  for (NodeId i = 1; i < n; ++i)
    for (size_t k = random() % (most + 1); k > 0; --k)
      reads[i].push_back(static_cast<NodeId>(random() % i));
  return reads;
}

/// reach[a][b]: a path leads from a to b.
std::vector<Set> closure(const Dependencies& d) {
  std::vector<Set> reach(d.n_nodes(), Set(d.n_nodes()));
  for (NodeId b = 0; b < d.n_nodes(); ++b)
    for (NodeId direct : d.before(b))
      for (NodeId a = 0; a <= direct; ++a)
        if (a == direct || reach[a][direct]) reach[a][b] = true;
  return reach;
}

bool is_convex(const std::vector<Set>& reach, const std::vector<NodeId>& nodes) {
  for (NodeId middle = 0; middle < reach.size(); ++middle) {
    if (std::find(nodes.begin(), nodes.end(), middle) != nodes.end()) continue;
    auto leads_to = [&](NodeId n) { return reach[n][middle]; };
    auto comes_from = [&](NodeId n) { return reach[middle][n]; };
    if (std::any_of(nodes.begin(), nodes.end(), leads_to) &&
        std::any_of(nodes.begin(), nodes.end(), comes_from))
      return false;
  }
  return true;
}

void expect_runs_in_order(const Dependencies& d, const GraphPieces& cut) {
  std::vector<size_t> turn(d.n_nodes(), SIZE_MAX);
  for (size_t p = 0; p < cut.pieces.size(); ++p)
    for (NodeId n : cut.pieces[p].nodes) {
      EXPECT_EQ(turn[n], SIZE_MAX) << "node " << n << " is in two pieces";
      turn[n] = p;
    }
  for (NodeId n = 0; n < d.n_nodes(); ++n) {
    ASSERT_NE(turn[n], SIZE_MAX) << "node " << n << " is in no piece";
    for (NodeId before : d.before(n)) EXPECT_LE(turn[before], turn[n]) << before << " and " << n;
  }
}

std::vector<std::vector<NodeId>> regions_of(const GraphPieces& cut) {
  std::vector<std::vector<NodeId>> out;
  for (const GraphPiece& piece : cut.pieces)
    if (piece.is_region) out.push_back(piece.nodes);
  return out;
}

GraphPieces cut(const Graph& graph, std::vector<Support> verdicts, size_t min_ops = 1) {
  Dependencies d(graph);
  GraphPieces out = cut_into_regions(graph, d, verdicts, min_ops);
  expect_runs_in_order(d, out);
  return out;
}

class RandomDag : public testing::TestWithParam<uint32_t> {};

TEST_P(RandomDag, RegionsAreConvexAndNoTwoCouldBeOne) {
  std::mt19937 random(GetParam());
  for (int i = 0; i < 60; ++i) {
    size_t n = 1 + random() % 24, percent = random() % 101;
    auto graph = dag(random_reads(random, n, 1 + random() % 3));
    std::vector<Support> verdicts;
    for (size_t k = 0; k < n; ++k) verdicts.push_back(random() % 100 < percent ? yes : no);
    Dependencies d(*graph);
    std::vector<Set> reach = closure(d);
    GraphPieces pieces = cut(*graph, verdicts);
    auto regions = regions_of(pieces);
    for (size_t a = 0; a < regions.size(); ++a) {
      EXPECT_TRUE(is_convex(reach, regions[a]));
      for (size_t b = a + 1; b < regions.size(); ++b) {
        std::vector<NodeId> both = regions[a];
        both.insert(both.end(), regions[b].begin(), regions[b].end());
        EXPECT_FALSE(is_convex(reach, both)) << "regions " << a << " and " << b;
      }
    }
    for (NodeId k = 0; k < n; ++k)
      EXPECT_EQ(pieces.reasons[k] == PlaceReason::supported, verdicts[k] == yes);
  }
}

TEST_P(RandomDag, SmallAndLonelyRegionsAreGivenUp) {
  std::mt19937 random(GetParam() + 1000);
  for (int i = 0; i < 60; ++i) {
    size_t n = 1 + random() % 24, min_ops = 1 + random() % 4;
    auto graph = dag(random_reads(random, n, 2));
    std::vector<Support> verdicts;
    for (size_t k = 0; k < n; ++k) verdicts.push_back(static_cast<Support>(random() % 3));
    GraphPieces pieces = cut(*graph, verdicts, min_ops);
    std::vector<Set> reach = closure(Dependencies(*graph));
    for (const std::vector<NodeId>& region : regions_of(pieces)) {
      EXPECT_TRUE(is_convex(reach, region));
      EXPECT_GE(region.size(), min_ops);
      for (NodeId node : region) EXPECT_NE(verdicts[node], no);
      if (region.size() == 1) {
        EXPECT_NE(verdicts[region[0]], fused);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomDag, testing::Range(0u, 20u));

TEST(Regions, AGraphThatIsSupportedStaysWhole) {
  auto graph = dag({{}, {}, {0}, {}});
  EXPECT_THAT(regions_of(cut(*graph, {yes, yes, fused, yes})),
              ElementsAre(ElementsAre(0, 1, 2, 3)));
  EXPECT_EQ(cut(*graph, {no, no, no, no}).pieces.size(), 1u);
}

TEST(Regions, APathThatLeavesAndReturnsCutsTheRegion) {
  // 0 is read by 1 (left) and 2; 2 also reads 1.
  auto graph = dag({{}, {0}, {0, 1}});
  EXPECT_THAT(regions_of(cut(*graph, {yes, no, yes})), ElementsAre(ElementsAre(0), ElementsAre(2)));
}

TEST(Regions, LeftNodesThatCanRunFirstDo) {
  auto graph = dag({{}, {}, {0, 1}});
  GraphPieces pieces = cut(*graph, {no, yes, yes});
  EXPECT_FALSE(pieces.pieces[0].is_region);
  EXPECT_THAT(regions_of(pieces), ElementsAre(ElementsAre(1, 2)));
}

TEST(Regions, ANodeGoesToTheRegionThatReadsIt) {
  // 1 is read in the second region only.
  auto graph = dag({{}, {}, {0}, {2, 1}});
  EXPECT_THAT(regions_of(cut(*graph, {yes, yes, no, yes})),
              ElementsAre(ElementsAre(0), ElementsAre(1, 3)));
}

TEST(Regions, OneAloneIsNotFused) {
  auto graph = dag({{}, {0}, {1}, {2}});
  GraphPieces pieces = cut(*graph, {fused, no, fused, yes});
  EXPECT_THAT(regions_of(pieces), ElementsAre(ElementsAre(2, 3)));
  EXPECT_EQ(pieces.reasons[0], PlaceReason::alone);
  EXPECT_EQ(pieces.reasons[2], PlaceReason::supported);
}

TEST(Regions, SmallOnesJoinTheFallback) {
  auto graph = dag({{}, {0}, {1}, {2}, {3}});
  GraphPieces pieces = cut(*graph, {yes, no, yes, yes, no}, 2);
  EXPECT_THAT(regions_of(pieces), ElementsAre(ElementsAre(2, 3)));
  EXPECT_EQ(pieces.reasons[0], PlaceReason::few);
  EXPECT_EQ(pieces.pieces.size(), 3u);
}

GraphPieces cut_text(const std::string& body, const std::vector<std::string>& left) {
  auto graph = parse_graph("tng 1\ngraph {\n" + body + "}\n");
  std::vector<Support> verdicts;
  for (const Node& node : graph->nodes()) {
    const std::string& op = name_of(node.op);
    verdicts.push_back(std::find(left.begin(), left.end(), op) == left.end() ? yes : no);
  }
  return cut(*graph, verdicts);
}

TEST(Regions, WritesStayBetweenTheReadsAroundThem) {
  GraphPieces pieces = cut_text(R"(
  input %x: f32[4]
  %a: f32[4] = aten.relu.default(%x)
  %b: f32[4] = aten.add_.Tensor(%x, %x)
  %c: f32[4] = aten.relu.default(%x)
  output %a, %c
)",
                                {"aten.add_.Tensor"});
  EXPECT_THAT(regions_of(pieces), ElementsAre(ElementsAre(0), ElementsAre(2)));
}

TEST(Regions, ViewsOfWrittenMemoryAreLeftToTheHost) {
  GraphPieces pieces = cut_text(R"(
  input %x: f32[4, 4]
  %t: f32[4, 4] strides [1, 4] = aten.t.default(%x)
  %b: f32[4, 4] = aten.add_.Tensor(%x, %x)
  %c: f32[4, 4] strides [1, 4] = aten.relu.default(%t)
  %d: f32[4, 4] strides [1, 4] = aten.sin.default(%c)
  output %d
)",
                                {"aten.sin.default"});
  EXPECT_THAT(regions_of(pieces), ElementsAre(ElementsAre(1, 2)));
  EXPECT_EQ(pieces.reasons[0], PlaceReason::shares_write);
}

TEST(Regions, RandomOpsKeepTheirOrder) {
  GraphPieces pieces = cut_text(R"(
  input %x: f32[4]
  %a: f32[4] = aten.rand_like.default(%x)
  %b: f32[4] = aten.randn_like.default(%x)
  %c: f32[4] = aten.rand_like.default(%x)
  output %a, %b, %c
)",
                                {"aten.randn_like.default"});
  EXPECT_THAT(regions_of(pieces), ElementsAre(ElementsAre(0), ElementsAre(2)));
}

TEST(Regions, NodesWaitForTheSymbolsThatTheyUse) {
  GraphPieces pieces = cut_text(R"(
  symbol u0 in [0, inf] from size(%n, 0)
  input %x: f32[4]
  %n: i64[u0, 1] = aten.nonzero.default(%x)
  %z: f32[u0] = aten.zeros.default([u0], dtype=f32)
  output %z
)",
                                {"aten.nonzero.default"});
  ASSERT_EQ(pieces.pieces.size(), 2u);
  EXPECT_THAT(pieces.pieces[1].nodes, ElementsAre(1));
}

// An assertion between left nodes would be a region of its own, and one beside taken nodes a call of
// the host out of their code.
TEST(Regions, AssertionsOnSizesStayWithTheNodesAroundThem) {
  GraphPieces pieces = cut_text(R"(
  symbol u0 in [0, inf] from size(%n, 0)
  input %x: f32[4]
  %n: i64[u0, 1] = aten.nonzero.default(%x)
  aten._assert_scalar.default(u0 <= 3, "few")
  %z: f32[u0] = aten.zeros.default([u0], dtype=f32)
  %m: i64[u0, 1] = aten.nonzero.default(%z)
  aten._assert_scalar.default(u0 <= 2, "fewer")
  output %m
)",
                                {"aten.nonzero.default"});
  EXPECT_THAT(regions_of(pieces), ElementsAre(ElementsAre(2)));
  EXPECT_EQ(pieces.pieces.size(), 3u);
  EXPECT_EQ(pieces.reasons[1], PlaceReason::computes_nothing);
}

TEST(Regions, AnAssertionThatTakenNodesWaitForIsTaken) {
  GraphPieces pieces = cut_text(R"(
  symbol s0 in [0, inf] from size(%x, 0)
  input %x: f32[s0]
  aten._assert_scalar.default(s0 <= 3, "few")
  aten._assert_async.default(%x)
  %y: f32[s0] = aten.relu.default(%x)
  %z: f32[s0] = aten.sin.default(%y)
  output %z
)",
                                {"aten.sin.default"});
  EXPECT_THAT(regions_of(pieces), ElementsAre(ElementsAre(0, 1, 2)));
}

TEST(Regions, AssertionsOfAGraphThatIsSupportedStayInIt) {
  GraphPieces pieces = cut_text(R"(
  symbol s0 in [0, inf] from size(%x, 0)
  input %x: f32[s0]
  aten._assert_scalar.default(s0 <= 3, "few")
  %y: f32[s0] = aten.relu.default(%x)
  output %y
)",
                                {});
  EXPECT_THAT(regions_of(pieces), ElementsAre(ElementsAre(0, 1)));
}

}  // namespace
}  // namespace tenon
