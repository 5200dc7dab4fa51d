// Peak memory of a partition, by walking through both halves.
//
// Problem: a budget bounds what is kept between the halves, not what lives while they run. Under a
// budget of 0 only inputs are kept; the first call of the backward may then need the last value of
// the forward, whose whole chain is recomputed first and stays for the calls that follow.
// Model: memory is allocated when the first value over it is made and freed after the last use of
// any value over it. Method: one pass for the last uses, one that adds and subtracts.
#include "partition/peak.h"

#include <algorithm>
#include <map>
#include <set>

namespace tenon::partition {

namespace {

class MemoryWalk {
 public:
  MemoryWalk(const JointGraph& graph, const Partition& partition)
      : graph_(graph), stands_for_(partition.stands_for) {
    for (const JointNode& node : graph.nodes)
      if (node.kind != JointNode::Kind::call && node.storage >= 0) inputs_.insert(node.storage);
  }

  // `kept` lives to the end, `given` from the beginning to its last use.
  int64_t peak(const std::vector<JointId>& calls, const std::vector<JointId>& given,
               const std::vector<JointId>& kept) {
    std::map<int64_t, size_t> last;
    for (size_t i = 0; i < calls.size(); ++i) {
      last[memory_of(calls[i])] = i;
      for (JointId in : node(calls[i]).inputs) last[memory_of(in)] = i;
    }
    for (JointId id : kept)
      if (id != no_node) last[memory_of(id)] = calls.size();
    std::map<int64_t, int64_t> live;
    int64_t now = 0, most = 0;
    auto make = [&](JointId id) {
      int64_t memory = memory_of(id);
      if (inputs_.contains(memory) || node(id).type != JointNode::Type::tensor) return;
      if (live.emplace(memory, node(id).bytes).second) now += node(id).bytes;
    };
    for (JointId id : given) make(id);
    most = now;
    for (size_t i = 0; i < calls.size(); ++i) {
      make(calls[i]);
      most = std::max(most, now);
      auto drop = [&](JointId id) {
        auto at = live.find(memory_of(id));
        if (at == live.end() || last[at->first] > i) return;
        now -= at->second;
        live.erase(at);
      };
      drop(calls[i]);
      for (JointId in : node(calls[i]).inputs) drop(in);
    }
    return most;
  }

 private:
  const JointNode& node(JointId id) const { return graph_.nodes[stands_for_[id]]; }
  // Memory of its own has a number of its own.
  int64_t memory_of(JointId id) const {
    return node(id).storage >= 0 ? node(id).storage : -1 - static_cast<int64_t>(stands_for_[id]);
  }

  const JointGraph& graph_;
  const std::vector<JointId>& stands_for_;
  std::set<int64_t> inputs_;
};

}  // namespace

int64_t peak_bytes(const JointGraph& graph, const Partition& partition) {
  MemoryWalk walk(graph, partition);
  std::vector<JointId> kept = partition.forward_outputs;
  kept.insert(kept.end(), partition.saved.begin(), partition.saved.end());
  int64_t forward = walk.peak(partition.forward, {}, kept);
  return std::max(forward, walk.peak(partition.backward, partition.saved, partition.gradients));
}

Partition partition_of_least_peak(const JointGraph& graph, const PartitionOptions& options) {
  Partition best = min_cut_partition(graph, options);
  bool any_budget = options.cost == "peak";
  if (options.memory_budget >= 1 && !any_budget) return best;
  int64_t least = peak_bytes(graph, best);
  for (double budget : {0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0}) {
    if (budget <= options.memory_budget && !any_budget) continue;
    PartitionOptions larger = options;
    larger.memory_budget = budget;
    larger.visualize_pareto = false;
    Partition other = min_cut_partition(graph, larger);
    int64_t peak = peak_bytes(graph, other);
    if (peak > least) continue;
    least = peak;
    best = std::move(other);
  }
  return best;
}

}  // namespace tenon::partition
