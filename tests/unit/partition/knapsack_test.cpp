// Solvers of the knapsack against known numbers and against trying all choices.
#include "partition/solvers/knapsack.h"

#include "core/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace tenon::partition {
namespace {

using Items = std::vector<KnapsackItem>;
using Indices = std::vector<uint32_t>;
using Solver = KnapsackSolver;

constexpr Solver exact_solvers[] = {Solver::dp, Solver::ilp, Solver::sliding_hirschberg};
constexpr Solver all_solvers[] = {Solver::dp, Solver::greedy, Solver::ilp,
                                  Solver::sliding_hirschberg, Solver::dynamic_dp};

double memory_of(const Items& items, const Indices& kept) {
  double sum = 0;
  for (uint32_t i : kept) sum += items[i].memory;
  return sum;
}

double best_of_all(const Items& items, double capacity) {
  double best = 0;
  for (uint32_t set = 0; set < (1u << items.size()); ++set) {
    Indices kept;
    for (uint32_t i = 0; i < items.size(); ++i)
      if (set >> i & 1) kept.push_back(i);
    if (memory_of(items, kept) <= capacity + 1e-12) best = std::max(best, runtime_of(items, kept));
  }
  return best;
}

// Memories are whole steps of the quantisation, so that all solvers see the same problem.
Items random_items(std::mt19937& random, size_t n) {
  Items items(n);
  for (KnapsackItem& item : items) {
    item.memory = static_cast<double>(random() % 1024) / 8192;
    item.memory = std::nearbyint(item.memory * 10000) / 10000;
    item.runtime = static_cast<double>(1 + random() % 20);
  }
  return items;
}

TEST(Knapsack, ExactSolversTakeTwoSmallItemsAndGreedyTheLargeOne) {
  Items items{{.5, 1}, {.5, 1}, {.6, 1.3}};
  for (Solver solver : exact_solvers)
    EXPECT_EQ(solve_knapsack(solver, items, 1), (Indices{0, 1})) << static_cast<int>(solver);
  EXPECT_EQ(solve_knapsack(Solver::greedy, items, 1), (Indices{2}));
}

TEST(Knapsack, ExactSolversEqualAllChoices) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    Items items = random_items(random, 1 + random() % 12);
    double capacity = std::nearbyint(static_cast<double>(random() % 8000)) / 10000;
    double best = best_of_all(items, capacity);
    for (Solver solver : exact_solvers) {
      Indices kept = solve_knapsack(solver, items, capacity);
      EXPECT_NEAR(runtime_of(items, kept), best, 1e-6)
          << "round " << round << " solver " << static_cast<int>(solver);
    }
  }
}

TEST(Knapsack, NoSolverExceedsTheCapacity) {
  std::mt19937 random(4);
  for (int round = 0; round < 40; ++round) {
    Items items = random_items(random, 15);
    double capacity = static_cast<double>(random() % 10000) / 10000;
    for (Solver solver : all_solvers)
      EXPECT_LE(memory_of(items, solve_knapsack(solver, items, capacity)), capacity + 1e-9);
  }
}

TEST(Knapsack, OneStepOfCapacityHoldsOneItemOfOneStep) {
  Items items(3, {1e-4, 1});
  for (Solver solver : exact_solvers)
    EXPECT_EQ(solve_knapsack(solver, items, 1e-4).size(), 1u) << static_cast<int>(solver);
}

TEST(Knapsack, ItemsWithoutMemoryAreKeptEvenAtNoCapacity) {
  Items items{{0, 2}, {0.5, 9}, {0, 1}};
  for (Solver solver : all_solvers)
    EXPECT_EQ(solve_knapsack(solver, items, 0), (Indices{0, 2})) << static_cast<int>(solver);
}

TEST(Knapsack, OfEqualSetsDpTakesEarlierItems) {
  EXPECT_EQ(solve_knapsack(Solver::dp, {{.4, 1}, {.4, 1}, {.4, 1}}, .5), (Indices{0}));
}

TEST(Knapsack, OfNoItemsIsEmpty) {
  for (Solver solver : all_solvers) EXPECT_TRUE(solve_knapsack(solver, {}, 1).empty());
}

TEST(Knapsack, TheDynamicSolverStopsAtTheKnee) {
  // The first item saves nearly all; the others add little for much memory.
  Items items{{.1, 100}, {.3, 2}, {.3, 2}, {.3, 2}};
  EXPECT_EQ(solve_knapsack(Solver::dynamic_dp, items, 1), (Indices{0}));
  EXPECT_EQ(solve_knapsack(Solver::dp, items, 1).size(), 4u);
}

TEST(Knapsack, TheExactSolverTakesManyEqualLayersInTime) {
  Items items;
  for (int layer = 0; layer < 100; ++layer) {
    items.push_back({0.0051, 9});
    items.push_back({0.0034, 6});
    items.push_back({0.0017, 3});
    items.push_back({0.0090, 20});
  }
  double dp = runtime_of(items, solve_knapsack(Solver::dp, items, 0.4321));
  EXPECT_NEAR(runtime_of(items, solve_knapsack(Solver::ilp, items, 0.4321)), dp, 1e-6);
}

TEST(Knapsack, TheExactSolverTakesSizesOfOneRatioInTime) {
  // Runtime follows memory, so that no bound tells the sets apart; nothing fills the capacity.
  Items items;
  for (int layer = 0; layer < 48; ++layer)
    for (double size : {7, 11, 13, 17, 22, 29}) items.push_back({size / 8192, size});
  double capacity = 2049.5 / 8192;
  EXPECT_EQ(runtime_of(items, solve_knapsack(Solver::ilp, items, capacity)), 2049);
}

TEST(Knapsack, TheExactSolverFillsTheCapacityToTheLastBit) {
  // 0.1 + 0.2 is a little more than 0.3.
  EXPECT_EQ(solve_knapsack(Solver::ilp, {{.1, 1}, {.2, 2}, {.25, 2.5}}, .3), (Indices{0, 1}));
}

TEST(Knapsack, AnUnknownSolverIsNamedWithTheKnownOnes) {
  try {
    knapsack_solver("foo");
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "activation_memory_budget_solver: Not aware of memory budget knapsack solver: foo; "
        "known are dp, greedy, ilp, dp_knapsack_sliding_hirschberg, "
        "dynamic_memory_budget_dp");
  }
}

}  // namespace
}  // namespace tenon::partition
