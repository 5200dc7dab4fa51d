// Casts to narrow floating types become casts to double precision.
#include "graph/passes/passes.h"

namespace tenon {

bool widen_casts(Graph& graph) {
  bool any = false;
  for (NodeId n = 0; n < graph.nodes().size(); ++n) {
    std::vector<Value> args(graph.node(n).args.begin(), graph.node(n).args.end());
    bool changed = false;
    for (Value& a : args) {
      if (a.tag != Tag::dtype || !is_narrow_floating(static_cast<Dtype>(a.payload))) continue;
      a = Value::of(Dtype::f64);
      changed = true;
    }
    if (changed) graph.set_args(n, args);
    any = any || changed;
  }
  for (const std::shared_ptr<Graph>& body : graph.subgraphs) any = widen_casts(*body) || any;
  return any;
}

}  // namespace tenon
