// From a view back to its base, through the nodes of a graph.
#include "graph/passes/view_root.h"

#include "ops/forms/history.h"

namespace tenon {

namespace {

// Also of ops that may have copied it, and of such as give several views.
ValueId viewed_by(const GraphOfViews& of, const Node& node, ValueId result) {
  ValueId viewed = no_value;
  if (entry_of(node.op).def->vjp.kind == Vjp::Kind::none) return viewed;  // detach
  Graph::for_each_use(node, [&](ValueId v) {
    if (viewed == no_value && of.share_memory(v, result)) viewed = v;
  });
  return viewed;
}

}  // namespace

bool is_grad_enabled_at(const Node& node, bool around) {
  auto fact = node.facts.find("grad");
  return fact == node.facts.end() ? around : fact->second == "on";
}

ViewRoot view_root(const GraphOfViews& of, ValueId v) {
  const Graph& graph = of.graph;
  auto needs = [&](ValueId value) { return graph.value(value).flags.requires_grad; };
  ViewRoot root{v};
  while (graph.value(root.value).source == ValueSource::node) {
    const Node& node = graph.node(graph.value(root.value).source_index);
    const bool is_known = root.value < of.values_before.size();
    if (ValueId same = is_known ? of.values_before[root.value] : no_value; same != no_value) {
      if (forgets_history(entry_of(node.op))) break;
      root.value = same;
      continue;
    }
    ValueId viewed = viewed_by(of, node, root.value);
    const bool is_off = !is_grad_enabled_at(node, of.grad_enabled);
    if (viewed == no_value || (is_off && needs(root.value))) break;  // what a function gives
    root.from_no_grad = root.from_no_grad || (is_off && needs(viewed));
    root.is_view = true;
    root.value = viewed;
  }
  return root;
}

bool was_written_with_grad(const Graph& graph, std::span<const ValueId> values_before,
                           bool grad_enabled, ValueId v) {
  if (v >= values_before.size() || values_before[v] == no_value) return false;
  const Node& node = graph.node(graph.value(v).source_index);
  const OpEntry& op = entry_of(node.op);
  return op.mutated_args && !forgets_history(op) && is_grad_enabled_at(node, grad_enabled);
}

}  // namespace tenon
