// Smaller bodies of control flow.
//
// A body cannot lose a result, since the call around it has as many. So a node of it is left out by
// letting an operand of the same form stand for its result, or ones; dead code does the rest. The
// control flow itself goes where one of its bodies, run once on the operands, fails alike.
#include "debug/minify/shrink.h"

#include "core/error.h"
#include "graph/body.h"
#include "graph/control_flow.h"
#include "graph/copy.h"
#include "graph/passes/passes.h"

#include <tenon/ops/create.h>

namespace tenon {

namespace {

struct BodyPlace {
  NodeId node;
  size_t argument;
};
/// From the outermost graph inwards.
using BodyPath = std::vector<BodyPlace>;

const Graph& body_at(const Graph& graph, std::span<const BodyPlace> path) {
  const Graph* found = &graph;
  for (const BodyPlace& p : path) found = found->node(p.node).args[p.argument].as<Graph>();
  return *found;
}

void find_bodies(const Graph& graph, const BodyPath& path, std::vector<BodyPath>& out) {
  for (NodeId n = 0; n < graph.nodes().size(); ++n)
    for (size_t a = 0; a < graph.node(n).args.size(); ++a) {
      if (graph.node(n).args[a].tag != Tag::graph) continue;
      BodyPath inner = path;
      inner.push_back({n, a});
      out.push_back(inner);
      find_bodies(*graph.node(n).args[a].as<Graph>(), inner, out);
    }
}

std::shared_ptr<Graph> with_body(const Graph& graph, std::span<const BodyPlace> path,
                                 std::shared_ptr<Graph> body) {
  if (path.empty()) return body;
  std::shared_ptr<Graph> out = clone(graph);
  const Graph& inner = body_at(*out, path.first(1));
  std::vector<Value> args(out->node(path[0].node).args.begin(), out->node(path[0].node).args.end());
  std::shared_ptr<Graph> changed = with_body(inner, path.subspan(1), std::move(body));
  args[path[0].argument] = keep_body(*out, std::move(changed));
  out->set_args(path[0].node, args);
  return out;
}

// What stands for a result that is left out: ones, where no operand will do.
void stand_in(GraphCopy& copy, const Graph& body, NodeId n, ValueId result) {
  std::vector<ValueId> operands;
  Graph::for_each_use(body.node(n), [&](ValueId v) { operands.push_back(v); });
  for (ValueId v : operands) try {
      return copy.replace(result, copy.fake(v));
    } catch (const Error&) {
    }
  const TensorMeta& meta = body.value(result).meta;
  SymIntList sizes(List<SymInt>(meta.sizes.data(), meta.sizes.size()));
  copy.replace(result, ones(sizes, meta.dtype));
}

// Null where that cannot be: numbers that nodes compute, sizes that only the run knows.
std::shared_ptr<Graph> with_some_nodes(const Graph& body, const std::vector<size_t>& kept) try {
  std::vector<bool> stays(body.nodes().size());
  for (size_t n : kept) stays[n] = true;
  GraphCopy copy(body);
  RecordScope scope(copy.recorder());
  copy.add_inputs();
  copy.add_constants();
  for (NodeId n = 0; n < body.nodes().size(); ++n) {
    copy.add_node(n);
    const Node& node = body.node(n);
    for (uint32_t r = 0; !stays[n] && r < node.n_results; ++r)
      stand_in(copy, body, n, node.first_result + r);
  }
  std::shared_ptr<Graph> out = copy.finish();
  isolate_outputs(*out);
  remove_dead_code(*out);
  return out;
} catch (const Error&) {
  return nullptr;
}

void shrink_body(Search& search, const BodyPath& path) {
  Candidate whole{independent_copy(search.graph()), search.best().inputs};
  const Graph& body = body_at(*whole.graph, path);
  auto fails = [&](const std::vector<size_t>& kept) {
    std::shared_ptr<Graph> smaller = with_some_nodes(body, kept);
    if (!smaller) return false;
    return search.take(tidied({with_body(*whole.graph, path, smaller), whole.inputs}));
  };
  smallest_part(body.nodes().size(), fails, 0);
}

// The body once, in the place of the control flow.
std::shared_ptr<Graph> unwrapped(const Graph& graph, NodeId n, size_t which) try {
  GraphCopy copy(graph);
  RecordScope scope(copy.recorder());
  copy.add_inputs();
  copy.add_constants();
  for (NodeId i = 0; i < graph.nodes().size(); ++i) {
    copy.add_node(i);
    if (i != n) continue;
    std::span<const Value> args = copy.call_arguments(n);
    ControlCall call =
        control_call(entry_of(graph.node(n).op), args.data(), static_cast<uint32_t>(args.size()));
    std::vector<Tensor> operands;
    for (const std::vector<Tensor>& list : call.operands)
      operands.insert(operands.end(), list.begin(), list.end());
    std::vector<Tensor> results = replay_body(*call.bodies.at(which), operands);
    require(results.size() == graph.node(n).n_results, "other results");
    for (uint32_t r = 0; r < results.size(); ++r)
      copy.replace(graph.node(n).first_result + r, results[r]);
  }
  return copy.finish();
} catch (const Error&) {
  return nullptr;
}

bool unwrap_any(Search& search) {
  Candidate now{independent_copy(search.graph()), search.best().inputs};
  for (NodeId n = 0; n < now.graph->nodes().size(); ++n) {
    const Node& node = now.graph->node(n);
    if (!is_control_flow(entry_of(node.op))) continue;
    auto is_body = [](const Value& a) { return a.tag == Tag::graph; };
    size_t n_bodies = static_cast<size_t>(std::ranges::count_if(node.args, is_body));
    for (size_t b = 0; b < n_bodies; ++b)
      if (std::shared_ptr<Graph> flat = unwrapped(*now.graph, n, b))
        if (search.take(tidied({flat, now.inputs}))) return true;
  }
  return false;
}

}  // namespace

void shrink_bodies(Search& search) {
  while (unwrap_any(search)) {
  }
  std::vector<BodyPath> paths;
  find_bodies(search.graph(), {}, paths);
  for (size_t i = 0; i < paths.size(); ++i) {
    size_t before = search.successes();
    shrink_body(search, paths[i]);
    if (search.successes() == before) continue;
    // Numbers of nodes are others now; bodies that were looked at are not made smaller again.
    paths.clear();
    find_bodies(search.graph(), {}, paths);
  }
}

}  // namespace tenon
