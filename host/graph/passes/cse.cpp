// Common subexpressions.
//
// Problem: two nodes with the same op and arguments compute the same tensor; one suffices, unless
//   somebody can tell the two apart.
// Model: nodes are equal if op, arguments (after earlier merges), facts and described results are.
//   They can be told apart when the op draws random numbers, has an effect, or reads or makes
//   memory that some node of the graph writes; and when both results leave the graph, because the
//   caller may write one of them. Data-dependent ops stay: each binds symbols of its own.
// Method: one walk forwards with a hash table from (op, arguments) to nodes; merges are applied in
//   one go at the end. Alias classes are those of the graph before; merging joins classes that
//   nobody writes, and whether a class has an output is kept up to date as merges are chosen.
// Cost: linear.
#include <algorithm>
#include <unordered_map>

#include "graph/hash.h"
#include "graph/passes/aliasing.h"
#include "graph/passes/passes.h"

namespace tenon {

namespace {

class Merger {
 public:
  explicit Merger(Graph& graph)
      : graph_(graph),
        classes_(graph),
        replacement_(graph.values().size(), no_value),
        dead_(graph.nodes().size()),
        escapes_(graph.values().size()) {
    for (ValueId v = 0; v < escapes_.size(); ++v) escapes_[classes_.of(v)] = classes_.escapes(v);
  }

  bool run() {
    for (NodeId n = 0; n < graph_.nodes().size(); ++n)
      if (may_merge(graph_.node(n))) visit(n);
    if (std::find(dead_.begin(), dead_.end(), true) == dead_.end()) return false;
    replace_values(graph_, replacement_);
    graph_.erase_nodes(dead_);
    return true;
  }

 private:
  bool may_merge(const Node& node) const {
    if (!is_pure(node) || node.n_results == 0) return false;
    for (const Value& arg : node.args)
      if (arg.tag == Tag::graph || arg.tag == Tag::opaque) return false;
    bool written = false;
    Graph::for_each_use(node, [&](ValueId v) { written |= classes_.is_written(v); });
    for (uint32_t r = 0; r < node.n_results; ++r)
      written |= classes_.is_written(node.first_result + r);
    return !written;
  }

  // The arguments with earlier merges applied.
  std::vector<Value> arguments(const Node& node, ArgumentLists& lists) const {
    std::vector<Value> args(node.args.begin(), node.args.end());
    auto now = [&](ValueId v) { return replacement_[v] != no_value ? replacement_[v] : v; };
    map_arguments(args, lists, now, keep_numbers);
    return args;
  }

  bool same(const Node& a, const std::vector<Value>& args, const Node& b) const {
    if (a.op != b.op || a.n_results != b.n_results || a.facts != b.facts) return false;
    ArgumentLists lists;
    std::vector<Value> others = arguments(b, lists);
    if (!std::equal(args.begin(), args.end(), others.begin(), others.end(), same_argument))
      return false;
    for (uint32_t r = 0; r < a.n_results; ++r) {
      const GraphValue &x = graph_.value(a.first_result + r), &y = graph_.value(b.first_result + r);
      bool both_none = x.kind == ValueKind::none && y.kind == ValueKind::none;
      if (!both_none && !same_meta(x, y)) return false;
      if (x.flags.requires_grad != y.flags.requires_grad || x.flags.tangent != y.flags.tangent)
        return false;
    }
    return true;
  }

  bool both_escape(const Node& a, const Node& b) const {
    for (uint32_t r = 0; r < a.n_results; ++r)
      if (escapes_[classes_.of(a.first_result + r)] && escapes_[classes_.of(b.first_result + r)])
        return true;
    return false;
  }

  void visit(NodeId n) {
    const Node& node = graph_.node(n);
    ArgumentLists lists;
    std::vector<Value> args = arguments(node, lists);
    uint64_t key = static_cast<uint64_t>(node.op);
    for (const Value& arg : args) key = key * 0x9E3779B97F4A7C15u ^ hash_argument(arg);
    auto [first, last] = known_.equal_range(key);
    for (auto it = first; it != last; ++it) {
      const Node& other = graph_.node(it->second);
      if (same(node, args, other) && !both_escape(node, other)) return merge(n, it->second);
    }
    known_.emplace(key, n);
  }

  void merge(NodeId gone, NodeId kept) {
    dead_[gone] = true;
    const Node &a = graph_.node(gone), &b = graph_.node(kept);
    for (uint32_t r = 0; r < a.n_results; ++r) {
      replacement_[a.first_result + r] = b.first_result + r;
      bool escapes =
          escapes_[classes_.of(a.first_result + r)] || escapes_[classes_.of(b.first_result + r)];
      escapes_[classes_.of(a.first_result + r)] = escapes_[classes_.of(b.first_result + r)] =
          escapes;
    }
  }

  Graph& graph_;
  AliasClasses classes_;
  std::vector<ValueId> replacement_;
  std::vector<bool> dead_, escapes_;
  std::unordered_multimap<uint64_t, NodeId> known_;
};

}  // namespace

bool merge_common_subexpressions(Graph& graph) { return Merger(graph).run(); }

}  // namespace tenon
