// Calls that give tensors and a list of them, or write a list: no node stands for one, so its parts
// do.
#include "core/dispatch.h"
#include "core/error.h"
#include "formats/pt2/pt2_import_parts.h"
#include "graph/record.h"

#include <algorithm>

namespace tenon::formats {

namespace {

/// The parts of a call, whose inputs are values of the graph that it stands in.
struct Parts {
  std::shared_ptr<Graph> graph;
  std::vector<ValueId> read;
};

// The results one by one.
std::vector<Tensor> called(const OpEntry& op, std::span<const Value> args) {
  Value results[8];
  ensure(op.n_returns <= 8, "an op has at most eight results");
  dispatch(op, args.data(), static_cast<uint32_t>(args.size()), results, op.n_returns);
  std::vector<Tensor> out;
  for (uint32_t r = 0; r < op.n_returns; ++r) {
    if (results[r].tag != Tag::tensors_owned) {
      out.push_back(take<Tensor>(results[r]));
      continue;
    }
    std::vector<Tensor> list = take<std::vector<Tensor>>(results[r]);
    out.insert(out.end(), list.begin(), list.end());
  }
  return out;
}

Parts parts_of(const Graph& graph, const OpEntry& op, std::span<const Value> given) {
  Parts out;
  GraphRecorder recorder(graph.shape_env);
  RecordScope scope(recorder);
  std::vector<Value> args(given.begin(), given.end());
  ArgumentLists lists;
  std::deque<Tensor> fakes;
  auto fake_of = [&](ValueId id) {
    const GraphValue& value = graph.value(id);
    if (value.kind != ValueKind::tensor) return Value::of(value.scalar);
    out.read.push_back(id);
    return Value::of(fakes.emplace_back(recorder.add_input(value.meta, value.offset)));
  };
  map_arguments(args, lists, fake_of, keep_numbers);
  out.graph = recorder.finish(called(op, args));
  return out;
}

}  // namespace

void Pt2Nodes::add_parts(const Pt2Graph& source, const Pt2Node& node, const OpEntry& op,
                         std::span<const Value> args, Pt2Scope& scope) {
  std::vector<GraphValue> seen;
  std::vector<std::string> names;
  for (const Pt2Argument& output : node.outputs) result(source, output, seen, names);
  Parts parts = parts_of(graph_, op, args);
  const Graph& inner = *parts.graph;
  require(inner.outputs().size() == names.size(), ErrorCode::bad_file,
          "{} gives {} tensors, the archive has {} results for it", node.target,
          inner.outputs().size(), names.size());
  std::vector<ValueId> outer(inner.values().size(), no_value);
  for (size_t i = 0; i < parts.read.size(); ++i) outer[inner.inputs()[i]] = parts.read[i];
  for (ValueId c : inner.constants()) outer[c] = graph_.add_constant(inner.constant(c), "");
  for (const Node& part : inner.nodes()) add_part(inner, part, node, outer, scope);
  for (size_t i = 0; i < names.size(); ++i) {
    const GraphValue& value = graph_.value(outer[inner.outputs()[i]]);
    scope[names[i]] = {outer[inner.outputs()[i]], value.kind, value.scalar};
  }
}

// One of the parts; `outer` has the value here for each value there.
void Pt2Nodes::add_part(const Graph& inner, const Node& part, const Pt2Node& node,
                        std::vector<ValueId>& outer, Pt2Scope& scope) {
  std::vector<Value> args(part.args.begin(), part.args.end());
  ArgumentLists lists;
  map_arguments(
      args, lists, [&](ValueId id) { return outer[id]; }, keep_numbers);
  std::vector<GraphValue> values;
  for (uint32_t r = 0; r < part.n_results; ++r) {
    values.push_back(inner.value(part.first_result + r));
    values.back().flags = {};
    values.back().alias_group = 0;  // of the other graph's groups
  }
  append(node, entry_of(part.op), args, std::move(values), std::vector<std::string>(part.n_results),
         scope);
  ValueId first = graph_.node(static_cast<NodeId>(graph_.nodes().size() - 1)).first_result;
  for (uint32_t r = 0; r < part.n_results; ++r) outer[part.first_result + r] = first + r;
}

}  // namespace tenon::formats
