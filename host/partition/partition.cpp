// The two ways to cut a joint graph: the page to read first.
#include "partition/partition.h"

#include "config/flags.h"
#include "core/error.h"
#include "partition/budget.h"
#include "partition/default_cut.h"
#include "partition/extract.h"
#include "partition/log_cut.h"
#include "partition/min_cut.h"

#include <unordered_set>

namespace tenon::partition {

PartitionOptions PartitionOptions::from_flags() {
  const config::FunctorchFlags& flags = config::flags().functorch;
  PartitionOptions options;
  options.cse = flags.cse;
  options.max_dist_from_bw = flags.max_dist_from_bw;
  options.ban_recompute_used_far_apart = flags.ban_recompute_used_far_apart;
  options.ban_recompute_long_fusible_chains = flags.ban_recompute_long_fusible_chains;
  options.ban_recompute_materialized_backward = flags.ban_recompute_materialized_backward;
  options.ban_recompute_not_in_allowlist = flags.ban_recompute_not_in_allowlist;
  options.ban_recompute_reductions = flags.ban_recompute_reductions;
  options.recompute_views = flags.recompute_views;
  options.aggressive_recomputation = flags.aggressive_recomputation;
  options.treat_parameters_as_free_to_save = flags.treat_parameters_as_free_to_save;
  options.unsafe_treat_script_objects_as_zero_size = flags.unsafe_treat_script_objects_as_zero_size;
  options.is_non_builtin_to_include = flags.is_non_builtin_to_include;
  options.unsafe_allow_optimization_of_collectives = flags.unsafe_allow_optimization_of_collectives;
  options.cost = config::flags().compiler.partition_cost.text();
  options.memory_budget = flags.activation_memory_budget;
  options.runtime_estimator = flags.activation_memory_budget_runtime_estimator.text();
  options.solver = flags.activation_memory_budget_solver.text();
  options.debug = flags.debug_partitioner;
  options.visualize_pareto = flags.visualize_memory_budget_pareto;
  options.pareto_dir = flags.memory_budget_pareto_dir;
  return options;
}

Partition min_cut_partition(const JointGraph& joint, const PartitionOptions& options) {
  check_budget(options);

  // Dead calls go, equal ones are merged, and what must be saved anyway is marked.
  WorkGraph graph(joint, options.cse);
  settle_tags(graph, options, false);

  // Which half needs a node, and how far it is from its use in the backward.
  CutFacts facts = find_facts(graph);
  if (!facts.has_backward) return split_where_traced(joint, options);

  // One cut, or several where a budget asks for less memory than the fastest way takes.
  Partition result;
  CutResult cut = choose_saved(graph, facts, options, result.n_cuts);

  // The halves follow from the saved values.
  split_at(graph, cut.saved, true, result);
  result.banned = std::move(cut.banned);
  result.cut_value = cut.value;
  result.facts = std::move(facts.nodes);
  for (JointId id = 0; id < cut.weights.size(); ++id) result.facts[id].weight = cut.weights[id];
  if (options.debug) log_cut(graph, result);
  return result;
}

int64_t activation_bytes(const JointGraph& graph, const Partition& partition) {
  std::unordered_set<int64_t> counted;
  for (const JointNode& node : graph.nodes)
    if (node.kind == JointNode::Kind::primal && node.storage >= 0) counted.insert(node.storage);
  int64_t bytes = 0;
  for (JointId id : partition.saved) {
    const JointNode& node = graph.nodes[id];
    if (node.kind == JointNode::Kind::primal) continue;
    if (node.storage < 0 || counted.insert(node.storage).second) bytes += node.bytes;
  }
  return bytes;
}

}  // namespace tenon::partition
