// Regions by levels.
//
// Problem. A backend says of each node whether it takes it. What it takes shall reach it in as few
// and as large pieces as possible, each convex (no path leaves it and comes back), and all pieces
// together must have an order in which they can run; merging what is merely connected gives cycles
// between pieces.
//
// Model. Nodes with edges "must run before" (dependencies.h: values, symbols, memory, effects). A
// schedule alternates: left nodes, then taken ones, then left ones, and so on, each time all that
// can run. The turn in which a node runs is its level:
//
//     level(left n)  = max over p before n of level(p), at least 0
//     level(taken n) = max over p before n of level(p) + (p is left), at least 1
//
// Region k is the taken nodes of level k; the left ones of level k run after it. A region is a
// block of a topological order, therefore convex. Some path changes k times from left to taken, and
// its stretches of taken nodes must lie in k regions, so no cut has fewer, and no two regions can
// be one. Nodes of a region need not be connected: what is supported as a whole stays whole.
//
// Then taken nodes sink: levels put a node as early as possible, although it may be read much later
// only. One that nobody in its region reads goes to the region of its first reader if fewer values
// cross borders then. The path above does not move, so the number of regions stays.
//
// A node without values, such as an assertion on sizes, stays on the left side where no taken node
// waits for it: to code it is a call of the host, and between two left nodes it would be a region.
//
// Nodes that are supported only beside others and have no neighbour in their region, and regions
// that are too small, are given up and levels are computed anew, since others may grow together
// then. After a few rounds what is still wrong is moved into the left nodes of its level, which is
// always possible.
//
// Cost: linear in nodes and edges, a few rounds.
#include "graph/regions.h"

#include "graph/passes/aliasing.h"

#include <algorithm>

namespace tenon {

namespace {

constexpr int max_rounds = 3;

class Cutter {
 public:
  Cutter(const Graph& graph, const Dependencies& dependencies, std::span<const Support> verdicts)
      : graph_(graph),
        dependencies_(dependencies),
        n_(static_cast<NodeId>(graph.nodes().size())),
        verdicts_(verdicts.begin(), verdicts.end()),
        reasons_(n_, PlaceReason::supported),
        users_(graph.users()),
        is_output_(graph.values().size()) {
    for (ValueId v : graph.outputs())
      if (v != no_value) is_output_[v] = true;
    for (NodeId n = 0; n < n_; ++n)
      if (verdicts_[n] == Support::no) reasons_[n] = PlaceReason::unsupported;
  }

  GraphPieces run(size_t min_region_ops) {
    for (int round = 0; round < max_rounds; ++round) {
      leave_shared_writes();
      leave_without_values();
      find_levels();
      sink();
      if (!give_up_small(min_region_ops, round + 1 == max_rounds)) break;
    }
    return {pieces(), std::move(reasons_)};
  }

 private:
  bool is_taken(NodeId n) const { return reasons_[n] == PlaceReason::supported; }
  // Whether the reader is in the region of the node that gives the value.
  bool is_read_inside(ValueId v, NodeId reader) const {
    const GraphValue& value = graph_.value(v);
    return value.source == ValueSource::node && is_taken(reader) &&
           levels_[reader] == levels_[value.source_index] && is_taken(value.source_index);
  }
  bool is_whole() const {
    return std::ranges::all_of(reasons_, [](PlaceReason r) { return r == PlaceReason::supported; });
  }
  void leave_shared_writes();
  void leave_without_values();
  void find_levels();
  void sink();
  int gain_of_sinking(NodeId n, uint32_t to) const;
  std::vector<bool> nodes_with_neighbours(bool by_any_edge) const;
  bool give_up_small(size_t min_region_ops, bool is_last);
  std::vector<GraphPiece> pieces() const;

  const Graph& graph_;
  const Dependencies& dependencies_;
  NodeId n_;
  std::vector<Support> verdicts_;
  std::vector<PlaceReason> reasons_;
  std::vector<uint32_t> levels_;  // by node
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> is_output_;    // by value
  std::vector<uint32_t> outside_;  // by value: readers in other regions; an output has one more
};

// A view that crosses a border would have to be the same memory on both sides, which only the host
// can promise. It matters where the memory is written; in-place results are the object itself.
void Cutter::leave_shared_writes() {
  if (is_whole()) return;
  AliasClasses classes(graph_);
  for (NodeId n = 0; n < n_; ++n) {
    const Node& node = graph_.node(n);
    const OpEntry& op = entry_of(node.op);
    for (uint32_t r = op.returned_arg >= 0 ? 1 : 0; r < node.n_results; ++r) {
      ValueId result = node.first_result + r;
      if (!is_taken(n) || !classes.is_written(result)) continue;
      Graph::for_each_use(node, [&](ValueId v) {
        if (classes.of(v) == classes.of(result)) reasons_[n] = PlaceReason::shares_write;
      });
    }
  }
}

bool has_values(const Node& node) {
  bool any = node.n_results > 0;
  Graph::for_each_use(node, [&](ValueId) { any = true; });
  return any;
}

void Cutter::leave_without_values() {
  if (is_whole()) return;
  std::vector<bool> is_awaited(n_);  // by a taken node
  for (NodeId n = n_; n-- > 0;) {
    if (is_taken(n) && !is_awaited[n] && !has_values(graph_.node(n)))
      reasons_[n] = PlaceReason::computes_nothing;
    if (!is_taken(n)) continue;
    for (NodeId p : dependencies_.before(n)) is_awaited[p] = true;
  }
}

void Cutter::find_levels() {
  levels_.assign(n_, 0);
  for (NodeId n = 0; n < n_; ++n) {
    uint32_t level = is_taken(n);
    for (NodeId p : dependencies_.before(n))
      level = std::max(level, levels_[p] + (is_taken(n) && !is_taken(p)));
    levels_[n] = level;
  }
}

// Values that no longer cross a border when the node goes to region `to`, less those that begin to.
int Cutter::gain_of_sinking(NodeId n, uint32_t to) const {
  const Node& node = graph_.node(n);
  int gain = 0;
  for (uint32_t r = 0; r < node.n_results; ++r) {
    const std::vector<NodeId>& users = users_[node.first_result + r];
    gain += !users.empty() && !is_output_[node.first_result + r] &&
            std::all_of(users.begin(), users.end(),
                        [&](NodeId user) { return is_taken(user) && levels_[user] == to; });
  }
  Graph::for_each_use(node, [&](ValueId v) {
    if (is_read_inside(v, n)) gain -= outside_[v] == 0;
  });
  return gain;
}

void Cutter::sink() {
  outside_.assign(graph_.values().size(), 0);
  for (ValueId v = 0; v < outside_.size(); ++v) outside_[v] = is_output_[v];
  for (NodeId n = 0; n < n_; ++n)
    Graph::for_each_use(graph_.node(n), [&](ValueId v) { outside_[v] += !is_read_inside(v, n); });
  // The last level in which a node can run without delaying one of another level.
  std::vector<uint32_t> latest(n_, no_value);
  for (NodeId n = n_; n-- > 0;) {
    uint32_t to = latest[n];
    if (is_taken(n) && to != no_value && to > levels_[n] && gain_of_sinking(n, to) > 0) {
      Graph::for_each_use(graph_.node(n), [&](ValueId v) { outside_[v] += is_read_inside(v, n); });
      levels_[n] = to;
    }
    for (NodeId p : dependencies_.before(n)) latest[p] = std::min(latest[p], levels_[n]);
  }
}

// Nodes that read from, or are read by, another one of their region; or that are at least ordered
// with one.
std::vector<bool> Cutter::nodes_with_neighbours(bool by_any_edge) const {
  std::vector<bool> out(n_);
  for (NodeId n = 0; n < n_; ++n) {
    auto meet = [&](NodeId other) {
      if (is_taken(n) && is_taken(other) && levels_[n] == levels_[other])
        out[n] = out[other] = true;
    };
    Graph::for_each_use(graph_.node(n), [&](ValueId v) {
      const GraphValue& value = graph_.value(v);
      if (value.source == ValueSource::node) meet(value.source_index);
    });
    if (!by_any_edge) continue;
    for (NodeId p : dependencies_.before(n)) meet(p);
  }
  return out;
}

// In the last round the nodes move into the left ones of their level, so none of them may be tied
// to what stays.
bool Cutter::give_up_small(size_t min_region_ops, bool is_last) {
  std::vector<bool> has_neighbour = nodes_with_neighbours(is_last);
  std::vector<size_t> sizes(n_ + 1);
  bool any = false;
  for (NodeId n = 0; n < n_; ++n) {
    if (!is_taken(n)) continue;
    if (verdicts_[n] == Support::if_fused && !has_neighbour[n]) {
      reasons_[n] = PlaceReason::alone;
      any = true;
    } else {
      ++sizes[levels_[n]];
    }
  }
  for (NodeId n = 0; n < n_; ++n)
    if (is_taken(n) && sizes[levels_[n]] < min_region_ops) {
      reasons_[n] = PlaceReason::few;
      any = true;
    }
  return any;
}

std::vector<GraphPiece> Cutter::pieces() const {
  std::vector<GraphPiece> turns;  // 2k: region k; 2k + 1: the left nodes of level k
  for (NodeId n = 0; n < n_; ++n) {
    size_t turn = size_t{2} * levels_[n] + !is_taken(n);
    if (turns.size() <= turn) turns.resize(turn + 1);
    turns[turn].is_region = is_taken(n);
    turns[turn].nodes.push_back(n);
  }
  std::vector<GraphPiece> out;
  for (GraphPiece& turn : turns) {
    if (turn.nodes.empty()) continue;
    if (turn.is_region || out.empty() || out.back().is_region) {
      out.push_back(std::move(turn));
      continue;
    }
    // Left nodes of two levels with nothing between them.
    std::vector<NodeId>& nodes = out.back().nodes;
    nodes.insert(nodes.end(), turn.nodes.begin(), turn.nodes.end());
    std::sort(nodes.begin(), nodes.end());
  }
  return out;
}

}  // namespace

std::string_view text_of(PlaceReason reason) {
  switch (reason) {
    case PlaceReason::supported:
      return "the backend supports it";
    case PlaceReason::unsupported:
      return "the backend does not support it";
    case PlaceReason::alone:
      return "the backend supports it beside others only";
    case PlaceReason::few:
      return "its region is smaller than min_region_ops";
    case PlaceReason::shares_write:
      return "it gives a view of memory that the graph writes";
    case PlaceReason::computes_nothing:
      return "it computes nothing, so it stays with what the host runs";
  }
  return "";
}

GraphPieces cut_into_regions(const Graph& graph, const Dependencies& dependencies,
                             std::span<const Support> verdicts, size_t min_region_ops) {
  require(verdicts.size() == graph.nodes().size(), "expected a verdict for each of {} nodes",
          graph.nodes().size());
  return Cutter(graph, dependencies, verdicts).run(min_region_ops);
}

}  // namespace tenon
