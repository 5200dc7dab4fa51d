// The solvers of the knapsack problem.
//
// Problem: items with a memory and a runtime; keep a set within the capacity of greatest runtime.
// Methods:
//   dp        memories and capacity in steps of 1/10000, rounded half to even; a row of best
//             runtimes by capacity in f32, and a bit for each item and capacity that says whether
//             the item improved it. Of equal sets the one of earlier items wins.
//             O(n * capacity / step).
//   hirschberg the same optimum, the items halved and the capacity split where the rows of both
//             halves add up best: rows only, no bits. Twice the time of dp.
//   dynamic   dp at a capacity of its own choice: the knee of the frontier, which is the point
//             nearest to "no memory, no recomputation" when both axes are scaled to one.
//   greedy    by runtime per memory, descending; what fits is taken. O(n log n).
//   ilp       exact in f64: branch and bound, level by level, items by runtime per memory. A state
//             goes when another one beats it in both, or when even with a fraction of the item that
//             no longer fits it stays below the best set known. Many equal layers fall together
//             into few states; at worst, with sizes that share no unit, states double a level.
// Items that take no memory are kept in all of them.
#include "partition/solvers/knapsack.h"

#include "core/error.h"
#include "core/joined.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

namespace tenon::partition {
namespace {

constexpr double steps_per_unit = 10000;
using Items = std::vector<KnapsackItem>;
using Indices = std::vector<uint32_t>;

constexpr std::array<std::pair<std::string_view, KnapsackSolver>, 5> solver_names{{
    {"dp", KnapsackSolver::dp},
    {"greedy", KnapsackSolver::greedy},
    {"ilp", KnapsackSolver::ilp},
    {"dp_knapsack_sliding_hirschberg", KnapsackSolver::sliding_hirschberg},
    {"dynamic_memory_budget_dp", KnapsackSolver::dynamic_dp},
}};

int64_t quantized(double memory) {
  return static_cast<int64_t>(std::nearbyint(std::min(memory * steps_per_unit, 1e15)));
}

// The items in steps; those without memory apart.
struct Quantized {
  std::vector<int64_t> memory;
  std::vector<float> runtime;
  Indices index;  // of the items with memory
  Indices free;   // those without
  size_t capacity = 0;

  Quantized(const Items& items, double limit) {
    int64_t total = 0;
    for (uint32_t i = 0; i < items.size(); ++i) {
      int64_t steps = quantized(items[i].memory);
      total += steps;
      if (steps == 0) {
        free.push_back(i);
      } else {
        memory.push_back(steps);
        runtime.push_back(static_cast<float>(items[i].runtime));
        index.push_back(i);
      }
    }
    capacity = static_cast<size_t>(std::min(quantized(std::max(limit, 0.0)), total));
  }

  Indices finish(const Indices& kept) const {
    Indices all = free;
    for (uint32_t i : kept) all.push_back(index[i]);
    std::sort(all.begin(), all.end());
    return all;
  }
};

// One item into the row of best runtimes; tells where it improved it.
template <class Improved>
void add_item(std::vector<float>& row, int64_t memory, float runtime, const Improved& improved) {
  for (size_t c = row.size(); c-- > static_cast<size_t>(std::min<int64_t>(memory, row.size()));) {
    float with = row[c - static_cast<size_t>(memory)] + runtime;
    if (with <= row[c]) continue;
    row[c] = with;
    improved(c);
  }
}

class DpTable {
 public:
  explicit DpTable(const Quantized& problem)
      : problem_(problem),
        row_(problem.capacity + 1, 0),
        taken_(problem.memory.size(), std::vector<bool>(problem.capacity + 1, false)) {
    for (size_t i = 0; i < problem.memory.size(); ++i)
      add_item(row_, problem.memory[i], problem.runtime[i], [&](size_t c) { taken_[i][c] = true; });
  }

  const std::vector<float>& row() const { return row_; }

  Indices kept(size_t capacity) const {
    Indices kept;
    for (size_t i = taken_.size(); i-- > 0;)
      if (taken_[i][capacity]) {
        kept.push_back(static_cast<uint32_t>(i));
        capacity -= static_cast<size_t>(problem_.memory[i]);
      }
    return kept;
  }

 private:
  const Quantized& problem_;
  std::vector<float> row_;
  std::vector<std::vector<bool>> taken_;
};

Indices solve_dp(const Items& items, double capacity) {
  Quantized problem(items, capacity);
  return problem.finish(DpTable(problem).kept(problem.capacity));
}

void split_halves(const Quantized& problem, size_t begin, size_t end, size_t capacity,
                  Indices& kept) {
  if (begin == end) return;
  if (end - begin == 1) {
    if (problem.memory[begin] <= static_cast<int64_t>(capacity) && problem.runtime[begin] > 0)
      kept.push_back(static_cast<uint32_t>(begin));
    return;
  }
  size_t middle = begin + (end - begin) / 2;
  std::vector<float> first(capacity + 1, 0), second(capacity + 1, 0);
  for (size_t i = begin; i < end; ++i)
    add_item(i < middle ? first : second, problem.memory[i], problem.runtime[i], [](size_t) {});
  size_t best = capacity;  // equal splits: more for the earlier items
  for (size_t c = capacity + 1; c-- > 0;)
    if (first[c] + second[capacity - c] > first[best] + second[capacity - best]) best = c;
  split_halves(problem, begin, middle, best, kept);
  split_halves(problem, middle, end, capacity - best, kept);
}

Indices solve_hirschberg(const Items& items, double capacity) {
  Quantized problem(items, capacity);
  Indices kept;
  split_halves(problem, 0, problem.memory.size(), problem.capacity, kept);
  return problem.finish(kept);
}

Indices solve_dynamic(const Items& items, double capacity) {
  Quantized problem(items, capacity);
  DpTable table(problem);
  const std::vector<float>& row = table.row();
  double memory_range = static_cast<double>(problem.capacity);
  double runtime_range = row.back() - row.front();
  if (memory_range == 0 || runtime_range == 0) return problem.finish(table.kept(problem.capacity));
  size_t knee = problem.capacity;
  double nearest = std::numeric_limits<double>::infinity();
  for (size_t c = 0; c < row.size(); ++c) {
    double distance =
        std::hypot(static_cast<double>(c) / memory_range, (row.back() - row[c]) / runtime_range);
    if (distance >= nearest) continue;
    nearest = distance;
    knee = c;
  }
  return problem.finish(table.kept(knee));
}

double ratio(const KnapsackItem& item) {
  return item.memory > 0 ? item.runtime / item.memory : std::numeric_limits<double>::infinity();
}

Indices by_ratio(const Items& items) {
  Indices order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return ratio(items[a]) > ratio(items[b]); });
  return order;
}

Indices solve_greedy(const Items& items, double capacity) {
  Indices kept;
  double used = 0;
  for (uint32_t i : by_ratio(items))
    if (used + items[i].memory <= capacity) {
      used += items[i].memory;
      kept.push_back(i);
    }
  std::sort(kept.begin(), kept.end());
  return kept;
}

// Branch and bound, level by level: of the states that a level leaves, those remain that no other
// one beats in both memory and runtime, and that could still lead to more than the best known set.
class BranchAndBound {
 public:
  BranchAndBound(const Items& items, double capacity)
      : items_(items), order_(by_ratio(items)), capacity_(capacity * (1 + 1e-12)) {
    best_ = solve_greedy(items, capacity);
    best_runtime_ = runtime_of(items, best_);
    for (uint32_t i : order_) {
      memory_before_.push_back(memory_before_.back() + items[i].memory);
      runtime_before_.push_back(runtime_before_.back() + items[i].runtime);
    }
  }

  Indices solve() {
    std::vector<State> states{{0, 0, no_step}}, next;
    for (size_t at = 0; at < order_.size() && !states.empty(); ++at) {
      branch(states, at, next);
      states.swap(next);
    }
    return best_;
  }

 private:
  static constexpr uint32_t no_step = ~uint32_t{0};
  struct State {
    double memory, runtime;
    uint32_t last;  // the step that took its last item
  };
  struct Step {
    uint32_t item, before;
  };

  // Sums of the same items in another order differ in their last bits.
  double slack() const { return 1e-12 * std::max(std::abs(best_runtime_), 1e-300); }

  // The runtime if items from `at` on could be cut to fit.
  double bound(const State& state, size_t at) const {
    double fits = capacity_ - state.memory + memory_before_[at];
    auto over = std::upper_bound(memory_before_.begin() + static_cast<ptrdiff_t>(at),
                                 memory_before_.end(), fits);
    size_t end = static_cast<size_t>(over - memory_before_.begin()) - 1;
    double runtime = state.runtime + runtime_before_[end] - runtime_before_[at];
    if (end == order_.size()) return runtime;
    return runtime + (fits - memory_before_[end]) * ratio(items_[order_[end]]);
  }

  // Both lists are ordered by memory; so is what they are merged into, by runtime as well.
  void branch(const std::vector<State>& states, size_t at, std::vector<State>& next) {
    const KnapsackItem& item = items_[order_[at]];
    next.clear();
    size_t without = 0, with = 0;
    while (without < states.size() || with < states.size()) {
      bool take =
          without == states.size() ||
          (with < states.size() && states[with].memory + item.memory < states[without].memory);
      State state = take ? states[with++] : states[without++];
      if (take) {
        state.memory += item.memory;
        state.runtime += item.runtime;
        if (state.memory > capacity_) continue;
      }
      bool beaten = !next.empty() && state.runtime <= next.back().runtime + slack();
      if (beaten || bound(state, at + 1) + slack() < best_runtime_) continue;
      if (take) state.last = add_step(order_[at], state.last);
      if (state.runtime > best_runtime_ + slack()) note_best(state);
      next.push_back(state);
    }
  }

  uint32_t add_step(uint32_t item, uint32_t before) {
    steps_.push_back({item, before});
    return static_cast<uint32_t>(steps_.size() - 1);
  }

  void note_best(const State& state) {
    best_.clear();
    for (uint32_t at = state.last; at != no_step; at = steps_[at].before)
      best_.push_back(steps_[at].item);
    std::sort(best_.begin(), best_.end());
    best_runtime_ = state.runtime;
  }

  const Items& items_;
  Indices order_, best_;
  std::vector<double> memory_before_{0}, runtime_before_{0};  // sums along order_
  std::vector<Step> steps_;
  double capacity_, best_runtime_ = 0;
};

}  // namespace

KnapsackSolver knapsack_solver(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& [text, solver] : solver_names) {
    if (text == name) return solver;
    known.emplace_back(text);
  }
  fail(
      "activation_memory_budget_solver: Not aware of memory budget knapsack solver: {}; known are "
      "{}",
      name, joined(known));
}

std::vector<uint32_t> solve_knapsack(KnapsackSolver solver, const Items& items, double capacity) {
  switch (solver) {
    case KnapsackSolver::dp:
      return solve_dp(items, capacity);
    case KnapsackSolver::greedy:
      return solve_greedy(items, capacity);
    case KnapsackSolver::ilp:
      return BranchAndBound(items, capacity).solve();
    case KnapsackSolver::sliding_hirschberg:
      return solve_hirschberg(items, capacity);
    case KnapsackSolver::dynamic_dp:
      return solve_dynamic(items, capacity);
  }
  return {};
}

double runtime_of(const Items& items, const std::vector<uint32_t>& kept) {
  double sum = 0;
  for (uint32_t i : kept) sum += items[i].runtime;
  return sum;
}

}  // namespace tenon::partition
