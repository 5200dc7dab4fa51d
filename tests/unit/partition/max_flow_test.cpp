// Minimum cuts against the best of all cuts, on random networks.
#include "partition/solvers/max_flow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

namespace tenon::partition {
namespace {

struct Arc {
  uint32_t from, to;
  int64_t capacity;
};

constexpr uint32_t source = 0, sink = 1;

struct Cut {
  int64_t value = FlowNetwork::infinite;
  uint32_t below = 0;  // bit v: on the side of the sink
};

// Of the cheapest cuts the one with the smallest sink side, found by trying all.
Cut best_of_all(uint32_t n, const std::vector<Arc>& arcs) {
  Cut best;
  for (uint32_t side = 0; side < (1u << n); ++side) {
    if ((side >> source & 1) || !(side >> sink & 1)) continue;
    int64_t value = 0;
    for (const Arc& arc : arcs)
      if (!(side >> arc.from & 1) && (side >> arc.to & 1)) value += arc.capacity;
    if (value < best.value || (value == best.value && (side & best.below) == side))
      best = {value, side};
  }
  return best;
}

Cut by_flow(uint32_t n, const std::vector<Arc>& arcs) {
  FlowNetwork network(n);
  for (const Arc& arc : arcs) network.add_arc(arc.from, arc.to, arc.capacity);
  Cut cut;
  cut.value = network.solve(source, sink);
  for (uint32_t v = 0; v < n; ++v) cut.below |= uint32_t(network.sink_side()[v]) << v;
  return cut;
}

std::vector<Arc> random_arcs(std::mt19937& random, uint32_t n) {
  std::vector<Arc> arcs;
  for (uint32_t i = 0, count = n + random() % (2 * n); i < count; ++i) {
    Arc arc{static_cast<uint32_t>(random() % n), static_cast<uint32_t>(random() % n),
            static_cast<int64_t>(random() % 6)};
    if (arc.from != arc.to) arcs.push_back(arc);
  }
  return arcs;
}

TEST(MaxFlow, FindsTheCheapestCutAndTheOneNearestToTheSink) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    uint32_t n = 2 + random() % 10;
    std::vector<Arc> arcs = random_arcs(random, n);
    Cut expected = best_of_all(n, arcs), found = by_flow(n, arcs);
    ASSERT_EQ(found.value, expected.value) << "round " << round;
    ASSERT_EQ(found.below, expected.below) << "round " << round;
  }
}

TEST(MaxFlow, DoesNotDependOnTheOrderOfTheArcs) {
  std::mt19937 random(8);
  for (int round = 0; round < 50; ++round) {
    std::vector<Arc> arcs = random_arcs(random, 30);
    Cut first = by_flow(30, arcs);
    std::shuffle(arcs.begin(), arcs.end(), random);
    Cut second = by_flow(30, arcs);
    ASSERT_EQ(std::tie(first.value, first.below), std::tie(second.value, second.below));
  }
}

TEST(MaxFlow, TakesTheLaterOfEqualArcsOfAChain) {
  EXPECT_EQ(by_flow(4, {{0, 2, 5}, {2, 3, 5}, {3, 1, 5}}).below, 1u << sink);
}

TEST(MaxFlow, FindsAPathThatCannotBeCut) {
  FlowNetwork network(5);
  network.add_arc(0, 2, FlowNetwork::infinite);
  network.add_arc(2, 3, 7);
  network.add_arc(2, 4, FlowNetwork::infinite);
  network.add_arc(3, 1, FlowNetwork::infinite);
  EXPECT_TRUE(network.infinite_path(0, 1).empty());
  FlowNetwork open(5);
  open.add_arc(0, 2, FlowNetwork::infinite);
  open.add_arc(2, 4, FlowNetwork::infinite);
  open.add_arc(4, 1, FlowNetwork::infinite);
  EXPECT_EQ(open.infinite_path(0, 1), (std::vector<FlowNetwork::Vertex>{0, 2, 4, 1}));
}

TEST(MaxFlow, OfNoArcsIsNothing) { EXPECT_EQ(by_flow(2, {}).value, 0); }

TEST(MaxFlow, WalksChainsOfAHundredThousandVertices) {
  constexpr uint32_t n = 100'000;
  FlowNetwork network(n);
  network.add_arc(0, 2, FlowNetwork::infinite);
  for (uint32_t v = 2; v + 1 < n; ++v) network.add_arc(v, v + 1, 3 + v % 5);
  network.add_arc(n - 1, 1, FlowNetwork::infinite);
  EXPECT_EQ(network.solve(0, 1), 3);
}

}  // namespace
}  // namespace tenon::partition
