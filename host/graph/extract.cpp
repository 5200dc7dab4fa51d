// Extraction: the border of the region, a convexity test, and the copy.
#include "graph/extract.h"

#include "core/error.h"

#include <algorithm>
#include <map>

namespace tenon {

namespace {

// Nodes between the first and the last of the region that depend on it but are not in it must not
// feed it: they would have to run in the middle.
void require_convex(const Graph& graph, const std::vector<bool>& inside) {
  std::vector<bool> tainted(graph.values().size(), false);
  for (NodeId n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.node(n);
    bool reads_tainted = false, reads_region = false;
    Graph::for_each_use(node, [&](ValueId v) {
      reads_tainted = reads_tainted || tainted[v];
      const GraphValue& value = graph.value(v);
      reads_region =
          reads_region || (value.source == ValueSource::node && inside[value.source_index]);
    });
    require(!inside[n] || !reads_tainted,
            "extract: the nodes are not convex: node {} needs a value that is computed outside "
            "from inside",
            n);
    if (!inside[n] && (reads_tainted || reads_region))
      for (uint32_t r = 0; r < node.n_results; ++r) tainted[node.first_result + r] = true;
  }
}

}  // namespace

Extracted extract_nodes(const Graph& graph, std::span<const NodeId> nodes) {
  std::vector<bool> inside(graph.nodes().size(), false);
  for (NodeId n : nodes) {
    require(n < inside.size(), "extract: node id {} is out of range", n);
    inside[n] = true;
  }
  require_convex(graph, inside);
  Extracted out{std::make_shared<Graph>(), {}, {}};
  out.graph->shape_env = graph.shape_env;
  out.graph->subgraphs = graph.subgraphs;
  std::map<ValueId, ValueId> mapped;
  auto map_value = [&](ValueId v) {
    auto found = mapped.find(v);
    if (found != mapped.end()) return found->second;
    out.outer_inputs.push_back(v);
    return mapped[v] = out.graph->add_input(graph.value(v));
  };
  std::vector<std::vector<NodeId>> users = graph.users();
  std::vector<ValueId> results;
  for (NodeId n = 0; n < graph.nodes().size(); ++n) {
    if (!inside[n]) continue;
    const Node& node = graph.node(n);
    Graph::for_each_use(node, map_value);
    std::vector<Value> args(node.args.begin(), node.args.end());
    for (Value& a : args) {
      if (a.tag == Tag::ref) a = Value::ref(mapped[static_cast<ValueId>(a.payload)]);
      if (a.tag != Tag::refs) continue;
      std::vector<ValueId> ids;
      for (uint32_t i = 0; i < a.count; ++i)
        ids.push_back(a.as<ValueId>()[i] == no_value ? no_value : mapped[a.as<ValueId>()[i]]);
      a = out.graph->intern_refs(ids);
    }
    auto values = graph.values().subspan(node.n_results ? node.first_result : 0, node.n_results);
    Node& copy =
        out.graph->node(out.graph->add_node(node.op, args, {values.begin(), values.end()}));
    copy.name = node.name;
    copy.where = node.where;
    copy.module_path = node.module_path;
    for (uint32_t r = 0; r < node.n_results; ++r) {
      ValueId old = node.first_result + r;
      mapped[old] = copy.first_result + r;
      bool leaves =
          std::find(graph.outputs().begin(), graph.outputs().end(), old) != graph.outputs().end();
      for (NodeId user : users[old]) leaves = leaves || !inside[user];
      if (!leaves) continue;
      out.outer_outputs.push_back(old);
      results.push_back(copy.first_result + r);
    }
  }
  out.graph->set_outputs(std::move(results));
  for (const SymbolBinding& s : graph.symbols)
    if (auto found = mapped.find(s.value); found != mapped.end())
      out.graph->symbols.push_back({s.symbol, found->second, s.dim, s.stride});
  return out;
}

}  // namespace tenon
