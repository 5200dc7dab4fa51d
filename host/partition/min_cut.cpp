// The cut between forward and backward.
//
// Problem: choose the values to save so that the backward can be computed from them, with least
// memory, where some calls must not be computed twice.
// Model: each node is two vertices, `in` and `out`, joined by an arc of the node's weight: cutting
// it saves the value. Infinite arcs lead from `out` to the `in` of users (a use cannot be cut),
// from the source to the `in` of banned nodes (they are not recomputed) and from what runs in the
// backward to the sink. Nodes whose `in` is on the source side and whose `out` is on the sink side
// are saved; nodes whose `in` is on the sink side are computed in the backward.
// Where memory is counted by storage, the weight is that of the storage: its two vertices, joined
// by an arc of its price, stand between the `in`s and the `out`s of all nodes over it, so that the
// first one that is saved pays for all.
// Method: maximum flow; the cut nearest to the sink, which is unique.
// Cost: that of max_flow.cpp on 2 n + 2 vertices.
#include "partition/min_cut.h"

#include "core/error.h"
#include "partition/log_cut.h"
#include "partition/solvers/max_flow.h"
#include "partition/storage_cost.h"
#include "report/dumps.h"

#include <algorithm>
#include <string>

namespace tenon::partition {
namespace {

using Vertex = FlowNetwork::Vertex;
constexpr Vertex source = 0, sink = 1;
Vertex in_of(JointId id) { return 2 + 2 * id; }
Vertex out_of(JointId id) { return 3 + 2 * id; }
JointId node_of(Vertex vertex) { return (vertex - 2) / 2; }

std::string describe_path(const WorkGraph& graph, const CutResult& result,
                          const std::vector<Vertex>& path) {
  std::string text;
  for (size_t i = 1; i + 1 < path.size(); ++i) {
    JointId id = node_of(path[i]);
    bool entered = path[i] == in_of(id);
    std::string why;
    if (path[i - 1] == source) {
      auto ban = std::find_if(result.banned.begin(), result.banned.end(),
                              [&](const Ban& b) { return b.node == id; });
      why = "cannot be recomputed: " +
            std::string(ban == result.banned.end() ? "banned" : text_of(ban->reason));
    }
    if (entered && path[i + 1] == out_of(id))
      why += why.empty() ? "cannot be saved" : "; cannot be saved";
    if (path[i + 1] == sink) why += why.empty() ? "needed in backward" : "; needed in backward";
    if (!why.empty())
      text += message("\n  {} ({}): {}", graph.node(id).name,
                      graph.node(id).target.empty() ? "input" : graph.node(id).target, why);
  }
  return text;
}

[[noreturn]] void fail_uncuttable(const WorkGraph& graph, const CutResult& result,
                                  const std::vector<Vertex>& path) {
  std::string where;
  if (report::dumps_wanted()) {
    std::string folder = report::dump_folder("partition");
    std::string file = "min_cut_failed_graph_" + graph.joint().name + ".txt";
    report::write_dump(folder, file, text_of(graph));
    where = message("\nThe graph is in {}/{}", report::shown_path(folder), file);
  }
  fail_internal(message(
      "partition: the graph '{}' has no finite cut between forward and backward. The path that "
      "cannot be cut:{}{}",
      graph.joint().name, describe_path(graph, result, path), where));
}

class Network {
 public:
  Network(const WorkGraph& graph, const CutFacts& facts, const PartitionOptions& options,
          CutResult& result)
      : graph_(graph),
        storages_(options.cost == "recorded" ? StorageCosts() : find_storage_costs(graph)),
        flow_(n_vertices(graph, storages_)),
        result_(result) {
    add_storages();
    for (const Ban& ban : result.banned) flow_.add_arc(source, in_of(ban.node), flow_.infinite);
    result.weights.assign(graph.size(), NodeFacts::no_edge);
    for (JointId id : graph.order()) {
      if (facts.follows_tangents[id]) {
        flow_.add_arc(in_of(id), sink, flow_.infinite);
        continue;
      }
      if (facts.for_backward[id]) flow_.add_arc(out_of(id), sink, flow_.infinite);
      if (graph.must_recompute(id)) {
        flow_.add_arc(in_of(id), sink, flow_.infinite);
        continue;
      }
      int64_t weight = options.cost == "recorded"
                           ? weight_of(graph, facts, options, id)
                           : weight_beside_storage(graph, facts, options, id);
      result.weights[id] = weight;
      add_to_storage(id);
      flow_.add_arc(in_of(id), out_of(id), weight == NodeFacts::infinite ? flow_.infinite : weight);
      for (JointId user : graph.users(id)) flow_.add_arc(out_of(id), in_of(user), flow_.infinite);
    }
  }

  void solve() {
    if (auto path = flow_.infinite_path(source, sink); !path.empty())
      fail_uncuttable(graph_, result_, path);
    result_.value = flow_.solve(source, sink);
    const std::vector<char>& below = flow_.sink_side();
    for (JointId id : graph_.order())
      if (!below[in_of(id)] && below[out_of(id)]) result_.saved.push_back(id);
  }

 private:
  static uint32_t n_vertices(const WorkGraph& graph, const StorageCosts& storages) {
    return 2 + 2 * static_cast<uint32_t>(graph.size() + storages.prices.size());
  }
  Vertex storage_in(uint32_t s) const { return in_of(static_cast<JointId>(graph_.size() + s)); }
  Vertex storage_out(uint32_t s) const { return out_of(static_cast<JointId>(graph_.size() + s)); }

  void add_storages() {
    for (uint32_t s = 0; s < storages_.prices.size(); ++s)
      flow_.add_arc(storage_in(s), storage_out(s), storages_.prices[s]);
  }

  void add_to_storage(JointId id) {
    if (storages_.of_node.empty() || storages_.of_node[id] == StorageCosts::free) return;
    flow_.add_arc(in_of(id), storage_in(storages_.of_node[id]), flow_.infinite);
    flow_.add_arc(storage_out(storages_.of_node[id]), out_of(id), flow_.infinite);
  }

  const WorkGraph& graph_;
  StorageCosts storages_;
  FlowNetwork flow_;
  CutResult& result_;
};

}  // namespace

CutResult solve_min_cut(const WorkGraph& graph, const CutFacts& facts,
                        const PartitionOptions& options, const BanRules& rules,
                        const std::vector<char>& may_recompute) {
  CutResult result;
  result.banned = find_bans(graph, facts, options, rules, may_recompute);
  Network(graph, facts, options, result).solve();
  return result;
}

}  // namespace tenon::partition
