// Which of some values to keep within a memory budget so that recomputing the others costs least.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tenon::partition {

struct KnapsackItem {
  double memory = 0;   ///< share of the budget's unit
  double runtime = 0;  ///< what keeping it saves
};

enum class KnapsackSolver : uint8_t { dp, greedy, ilp, sliding_hirschberg, dynamic_dp };

/// The solver of that name: dp, greedy, ilp, dp_knapsack_sliding_hirschberg,
/// dynamic_memory_budget_dp. Throws UserError for another one.
KnapsackSolver knapsack_solver(std::string_view name);

/// The indices of the items to keep, ascending. Memories are not negative.
std::vector<uint32_t> solve_knapsack(KnapsackSolver solver, const std::vector<KnapsackItem>& items,
                                     double capacity);

/// The runtime of the items of that index.
double runtime_of(const std::vector<KnapsackItem>& items, const std::vector<uint32_t>& kept);

}  // namespace tenon::partition
