// The curve of memory against recomputation, as a picture and a table.
//
// Threads: pure functions that write files.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tenon::partition {

struct ParetoPoint {
  double budget = 0;
  double memory = 0;   ///< share of the memory that the fastest way takes
  double runtime = 0;  ///< of what is recomputed, in the unit of the estimator
};

/// The points between the budgets 0 and 1 where the result changes, to 1/1000 in the budget; by
/// memory, without those that another one beats.
std::vector<ParetoPoint> pareto_points(const std::function<ParetoPoint(double)>& at);

/// Writes memory_budget_pareto_<graph>.svg and .csv into `folder` (made if missing; empty: the
/// current one). A file that cannot be written is a warning in the log.
void draw_pareto(const std::string& graph, const std::string& folder,
                 const std::function<ParetoPoint(double)>& at);

}  // namespace tenon::partition
