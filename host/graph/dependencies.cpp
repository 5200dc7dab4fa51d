// One walk over the nodes that remembers who touched each memory last.
#include "graph/dependencies.h"

#include "graph/passes/aliasing.h"
#include "graph/symbol_use.h"

#include <algorithm>

namespace tenon {

namespace {

constexpr NodeId nobody = no_value;

/// Who wrote a class of values last, and who has read it since.
struct Accesses {
  NodeId writer = nobody;
  std::vector<NodeId> readers;
};

bool has_effect(const Node& node) {
  if ((entry_of(node.op).tags & TN_TAG_SIDE_EFFECT) || draws_numbers(node)) return true;
  return std::any_of(node.args.begin(), node.args.end(), [](const Value& a) {
    return a.tag == Tag::opaque ||
           (a.tag == Tag::graph && has_effects(*a.as<Graph>(), /*random=*/true));
  });
}

/// Collects the edges of one node after the other.
class Walk {
 public:
  explicit Walk(const Graph& graph)
      : graph_(graph), classes_(graph), symbols_(graph), accesses_(graph.values().size()) {
    for (const SymbolBinding& b : graph.symbols) {
      const GraphValue& value = graph.value(b.value);
      bool by_node = value.source == ValueSource::node;
      binders_.push_back(by_node ? value.source_index : nobody);
      any_binder_ = any_binder_ || by_node;
    }
  }

  void add_edges(NodeId n, std::vector<NodeId>& edges) {
    const Node& node = graph_.node(n);
    auto add = [&](NodeId earlier) {
      if (earlier != nobody && earlier != n) edges.push_back(earlier);
    };
    Graph::for_each_use(node, [&](ValueId v) {
      const GraphValue& value = graph_.value(v);
      if (value.source == ValueSource::node) add(value.source_index);
    });
    if (any_binder_) symbols_.each_of(node, [&](uint32_t s) { add(binders_[s]); });
    if (has_effect(node)) add(std::exchange(last_effect_, n));
    add_memory(n, node, add);
  }

 private:
  template <class F>
  void add_memory(NodeId n, const Node& node, F add) {
    uint64_t writes = written_args(node);
    for (size_t i = 0; i < node.args.size(); ++i) {
      bool is_write = i >= 64 || (writes >> i & 1) || has_opaque_body(node);
      for_each_value(node.args[i], [&](ValueId v) {
        if (classes_.is_written(v)) add_access(n, accesses_[classes_.of(v)], is_write, add);
      });
    }
  }
  template <class F>
  static void add_access(NodeId n, Accesses& memory, bool is_write, F add) {
    add(memory.writer);
    if (!is_write) return memory.readers.push_back(n);
    for (NodeId reader : memory.readers) add(reader);
    memory.readers.clear();
    memory.writer = n;
  }

  const Graph& graph_;
  AliasClasses classes_;
  SymbolUse symbols_;
  std::vector<Accesses> accesses_;  // by class
  std::vector<NodeId> binders_;     // by symbol: the node that shows it
  bool any_binder_ = false;
  NodeId last_effect_ = nobody;
};

}  // namespace

Dependencies::Dependencies(const Graph& graph) {
  Walk walk(graph);
  first_.push_back(0);
  for (NodeId n = 0; n < graph.nodes().size(); ++n) {
    walk.add_edges(n, edges_);
    first_.push_back(edges_.size());
  }
}

bool Dependencies::leaves_and_returns(const std::vector<bool>& inside, NodeId& n) const {
  std::vector<bool> tainted(n_nodes());  // outside, and waits for a node inside
  for (n = 0; n < n_nodes(); ++n)
    for (NodeId earlier : before(n)) {
      if (inside[n] && tainted[earlier]) return true;
      tainted[n] = tainted[n] || (!inside[n] && (inside[earlier] || tainted[earlier]));
    }
  return false;
}

}  // namespace tenon
