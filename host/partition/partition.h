// Which values of a joint graph are kept for the backward, and what each half computes.
//
//   Partition cut = min_cut_partition(graph, PartitionOptions::from_flags());
//   for (JointId id : cut.saved) ...   // outputs of the forward, inputs of the backward
//
// Ids in the result are those of the graph that was given, also where equal calls were merged:
// `stands_for` says which call is made in place of another one.
//
// Threads: pure functions; the options' callbacks run on the calling thread.
#pragma once

#include "partition/joint_graph.h"

#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::partition {

/// What the flags of the module functorch say; defaults are theirs.
struct PartitionOptions {
  bool cse = true;
  int64_t max_dist_from_bw = 1000;
  bool ban_recompute_used_far_apart = true;
  bool ban_recompute_long_fusible_chains = true;
  bool ban_recompute_materialized_backward = true;
  bool ban_recompute_not_in_allowlist = true;
  bool ban_recompute_reductions = true;
  bool recompute_views = false;
  bool aggressive_recomputation = false;
  bool treat_parameters_as_free_to_save = true;
  bool unsafe_treat_script_objects_as_zero_size = false;
  bool is_non_builtin_to_include = false;
  bool unsafe_allow_optimization_of_collectives = false;
  /// compiler.partition_cost: "recorded" (weights as PyTorch has them), "storage" (the bytes of
  /// each storage once), "peak" (as "storage", and the budget that needs the least memory at once).
  std::string cost = "recorded";
  double memory_budget = 1;                 ///< activation_memory_budget
  std::string runtime_estimator = "flops";  ///< flops, testing, profile
  std::string solver = "dp";                ///< see knapsack.h
  /// What `profile` asks: milliseconds that the node takes. Needed for `profile` only.
  std::function<double(const JointNode&)> profile;
  bool debug = false;             ///< debug_partitioner
  bool visualize_pareto = false;  ///< visualize_memory_budget_pareto
  std::string pareto_dir;         ///< memory_budget_pareto_dir; empty: the current folder

  static PartitionOptions from_flags();
};

enum class BanReason : uint8_t {
  primal_input,
  marked_must_save,
  not_in_allowlist,
  random_op,
  compute_intensive,
  user_op,
  materialized_in_backward,
  too_far_from_backward,
  reduction,
  used_far_apart,
  long_fusible_chain,
};
std::string_view text_of(BanReason reason);  ///< "not in recomputable allowlist"

struct Ban {
  JointId node;
  BanReason reason;
};

enum class NodeClass : uint8_t { dead, forward, backward, unclaimed };

/// What the cut was decided on, by node.
struct NodeFacts {
  static constexpr int64_t infinite = std::numeric_limits<int64_t>::max();
  static constexpr int64_t no_edge = -1;  ///< tied to the backward: there is nothing to cut

  NodeClass place = NodeClass::dead;  ///< dead: unused or merged into an equal call
  int64_t distance = 0;               ///< steps to the nearest use in the backward
  int64_t weight = 0;                 ///< what cutting here costs, or infinite or no_edge
  uint32_t forward_order = 0;         ///< rank among the nodes of the forward
};

struct Partition {
  std::vector<JointId> saved;          ///< tensors, in the order of the graph
  std::vector<JointId> saved_symbols;  ///< numbers: those that name a symbol, then others
  std::vector<JointId> saved_opaque;
  std::vector<JointId> forward;          ///< calls of the forward, in the order to run them
  std::vector<JointId> backward;         ///< calls of the backward, in the order to run them
  std::vector<JointId> forward_outputs;  ///< what the forward gives to its caller
  std::vector<JointId> gradients;        ///< one or no_node for each primal
  std::vector<JointId> recomputed;       ///< calls in both halves, in the forward's order
  /// By id: the node that is computed in its place, itself where nothing was merged.
  std::vector<JointId> stands_for;
  std::vector<Ban> banned;       ///< of the cut that decided, in the order of banning
  std::vector<NodeFacts> facts;  ///< by id; empty after the default partition
  int64_t cut_value = 0;         ///< of that cut
  uint32_t n_cuts = 0;           ///< how many minimum cuts were computed
};

/// Runs forward what was traced forward and saves whatever the backward reads of it.
/// Throws InternalError if the graph contradicts its tags.
Partition default_partition(const JointGraph& graph, const PartitionOptions& options);

/// Saves the values of least total size from which the backward can be computed, and recomputes
/// what is cheap. Throws UserError for options out of range, InternalError where no finite cut
/// exists, with the path that cannot be cut.
Partition min_cut_partition(const JointGraph& graph, const PartitionOptions& options);

/// Bytes of memory that stays alive for the backward besides the inputs: each storage once.
int64_t activation_bytes(const JointGraph& graph, const Partition& partition);

}  // namespace tenon::partition
