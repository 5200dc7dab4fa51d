// Saved values under a memory budget.
//
// Problem: the budget is a share b of the memory between "all inputs" (0) and the minimum cut R
// (1). Method: step by step towards less memory, and stop at the first result below the budget:
//   R   the rules that the flags ask for
//   M   without the rules on where values are used (materialized, far apart, long chains)
//   A   without the allowlist: only matrix products and random ops are kept
//   K   of the calls that A keeps, a knapsack chooses those that are worth their memory; the others
//       may be recomputed, and one more cut decides
// Budget 0 saves the inputs and what must not run twice.
// Cost: up to four cuts and one knapsack.
#include "partition/budget.h"

#include "core/error.h"
#include "partition/log_cut.h"
#include "partition/pareto.h"
#include "partition/runtime_estimate.h"
#include "partition/solvers/knapsack.h"
#include "partition/storage_cost.h"

#include <algorithm>
#include <unordered_set>

namespace tenon::partition {

void check_budget(const PartitionOptions& options) {
  double budget = options.memory_budget;
  require(budget >= 0 && budget <= 1,
          "activation_memory_budget: the valid ranges for memory budget are 0 <= m <= 1. The "
          "provided value is {}",
          budget);
  knapsack_solver(options.solver);
  check_runtime_estimator(options);
}

namespace {

using Recompute = JointNode::Recompute;
using Type = JointNode::Type;

class Budget {
 public:
  Budget(const WorkGraph& graph, const CutFacts& facts, const PartitionOptions& options,
         uint32_t& n_cuts)
      : graph_(graph), facts_(facts), options_(options), n_cuts_(n_cuts) {
    for (JointId id : graph_.order())
      if (graph_.is_forward_input(id)) input_storages_.insert(graph_.node(id).storage);
  }

  CutResult choose() {
    const double budget = options_.memory_budget;
    if (budget == 0) return save_inputs();
    BanRules rules = BanRules::of(options_);
    CutResult fastest = cut(rules);
    if (budget == 1) return fastest;
    least_ = gigabytes_of(save_inputs().saved);
    range_ = gigabytes_of(fastest.saved) - least_;
    if (range_ <= 0) return fastest;

    rules.used_far_apart = rules.long_fusible_chains = rules.materialized_backward = false;
    CutResult more = cut(rules);
    if (ratio(more) < budget) return more;

    rules.not_in_allowlist = false;
    rules_ = rules;
    CutResult most = cut(rules);
    if (ratio(most) < budget) return most;

    find_candidates(most);
    if (candidates_.empty()) return save_marked(std::move(most));
    if (options_.visualize_pareto)
      draw_pareto(graph_.joint().name, options_.pareto_dir,
                  [&](double share) { return point_at(share); });
    return keep_worthiest(budget, options_.debug);
  }

 private:
  CutResult cut(const BanRules& rules, const std::vector<char>& may_recompute = {}) {
    ++n_cuts_;
    return solve_min_cut(graph_, facts_, options_, rules, may_recompute);
  }

  bool is_opaque(JointId id) const {
    bool opaque = graph_.node(id).type == Type::opaque;
    require(!opaque || options_.unsafe_treat_script_objects_as_zero_size,
            "activation_memory_budget: the size of the opaque value '{}' in the graph '{}' is not "
            "known; set unsafe_treat_script_objects_as_zero_size to count such values as 0 bytes",
            graph_.node(id).name, graph_.joint().name);
    return opaque;
  }

  double gigabytes_of(const std::vector<JointId>& saved) const {
    double bytes = 0;
    for (JointId id : saved)
      if (!is_opaque(id)) bytes += static_cast<double>(graph_.node(id).bytes);
    bool shared_once = options_.cost != "recorded";
    return (shared_once ? static_cast<double>(bytes_by_storage(graph_, saved)) : bytes) / 1e9;
  }

  // Takes no memory besides the inputs.
  bool is_of_input(JointId id) const {
    int64_t storage = graph_.node(id).storage;
    return graph_.is_forward_input(id) || (storage >= 0 && input_storages_.count(storage) != 0);
  }

  double ratio(const CutResult& result) const {
    return (gigabytes_of(result.saved) - least_) / range_;
  }

  // Inputs, and results of calls that must not run again.
  CutResult save_inputs() const {
    CutResult result;
    std::vector<char> chosen(graph_.size(), 0);
    for (JointId id : graph_.order()) {
      bool tuple_part = (graph_.classes(id) & class_getitem) && !graph_.inputs(id).empty() &&
                        chosen[graph_.inputs(id)[0]];
      chosen[id] = graph_.is_forward_input(id) || tuple_part ||
                   (graph_.runs_once(id) && !graph_.of_backward(id));
      Type type = graph_.node(id).type;
      if (chosen[id] && type != Type::tuple && type != Type::none) result.saved.push_back(id);
    }
    return result;
  }

  // Nothing that A bans can be given up but what the user marked: that and the inputs are enough,
  // unless a mark is on something that cannot be saved itself.
  CutResult save_marked(CutResult most) const {
    std::vector<JointId> saved = save_inputs().saved;
    for (const Ban& ban : most.banned) {
      if (graph_.runs_once(ban.node)) return most;
      if (graph_.recompute(ban.node) != Recompute::must_save || is_of_input(ban.node) ||
          facts_.nodes[ban.node].distance >= unreachable_distance)
        continue;
      if (graph_.node(ban.node).type != Type::tensor) return most;
      saved.push_back(ban.node);
    }
    most.saved = std::move(saved);
    return most;
  }

  // What A banned, is needed by the backward and takes memory of its own; largest first.
  void find_candidates(const CutResult& most) {
    for (const Ban& ban : most.banned) {
      bool user_op = options_.is_non_builtin_to_include && !graph_.node(ban.node).builtin;
      if ((is_of_input(ban.node) && !user_op) ||
          facts_.nodes[ban.node].distance >= unreachable_distance ||
          graph_.recompute(ban.node) == Recompute::must_save || graph_.runs_once(ban.node))
        continue;
      candidates_.push_back(ban.node);
    }
    std::stable_sort(candidates_.begin(), candidates_.end(), [&](JointId a, JointId b) {
      return graph_.node(a).bytes > graph_.node(b).bytes;
    });
    for (JointId id : candidates_)
      items_.push_back({static_cast<double>(graph_.node(id).bytes) / 1e9 / range_,
                        estimate_runtime(graph_, options_, id)});
  }

  CutResult keep_worthiest(double budget, bool log) {
    std::vector<uint32_t> kept = solve_knapsack(knapsack_solver(options_.solver), items_, budget);
    if (log) log_candidates(graph_, candidates_, items_, kept, budget);
    std::vector<char> may_recompute(graph_.size(), 0);
    for (JointId id : candidates_) may_recompute[id] = 1;
    for (uint32_t i : kept) may_recompute[candidates_[i]] = 0;
    saved_runtime_ = runtime_of(items_, kept);
    return cut(rules_, may_recompute);
  }

  ParetoPoint point_at(double budget) {
    double all = 0;
    for (const KnapsackItem& item : items_) all += item.runtime;
    uint32_t counted = n_cuts_;  // pictures do not count
    double memory = ratio(keep_worthiest(budget, false));
    n_cuts_ = counted;
    return {budget, memory, all - saved_runtime_};
  }

  const WorkGraph& graph_;
  const CutFacts& facts_;
  const PartitionOptions& options_;
  uint32_t& n_cuts_;
  std::unordered_set<int64_t> input_storages_;
  double least_ = 0, range_ = 0;  // in GB
  BanRules rules_;                // those of A
  std::vector<JointId> candidates_;
  std::vector<KnapsackItem> items_;
  double saved_runtime_ = 0;
};

}  // namespace

CutResult choose_saved(const WorkGraph& graph, const CutFacts& facts,
                       const PartitionOptions& options, uint32_t& n_cuts) {
  return Budget(graph, facts, options, n_cuts).choose();
}

}  // namespace tenon::partition
