// Graph: building, editing and the arena behind the arguments.
#include "graph/graph.h"

#include "core/dispatch.h"
#include "graph/hash.h"
#include "ops/op_table.h"

#include <algorithm>
#include <cstring>

namespace tenon {

uint64_t written_args(const Node& node) { return written_args(entry_of(node.op), node.args); }

void* Graph::allocate(size_t bytes, size_t align) {
  ensure(align <= 8, "arena alignment");
  size_t words = (bytes + 7) / 8;
  if (blocks_.empty() || used_ + words > blocks_.back().size()) {
    blocks_.emplace_back(std::max<size_t>(words, 512));
    used_ = 0;
  }
  void* p = blocks_.back().data() + used_;
  used_ += words;
  return p;
}

Value Graph::intern(const Value& v) {
  ensure(v.tag != Tag::tensor && v.tag != Tag::tensors,
         "a graph argument names values, not tensors");
  Value out = v;
  if (v.tag == Tag::strings) {
    auto* copies = static_cast<std::string_view*>(allocate(v.count * sizeof(std::string_view), 8));
    for (uint32_t i = 0; i < v.count; ++i) {
      std::string_view text = v.as<std::string_view>()[i];
      auto* bytes = static_cast<char*>(allocate(text.size(), 1));
      std::copy(text.begin(), text.end(), bytes);
      new (copies + i) std::string_view(bytes, text.size());
    }
    out.payload = reinterpret_cast<uint64_t>(copies);
    return out;
  }
  size_t size = element_bytes_of(v.tag);
  if (size == 0) return out;
  void* copy = allocate(size * v.count, 8);
  if (v.count) std::memcpy(copy, v.as<void>(), size * v.count);
  out.payload = reinterpret_cast<uint64_t>(copy);
  return out;
}

Value Graph::intern_refs(std::span<const ValueId> ids) {
  return intern(Value::pointer(Tag::refs, ids.data(), ids.size()));
}

ValueId Graph::add_input(GraphValue value) {
  value.source = ValueSource::input;
  value.source_index = static_cast<uint32_t>(inputs_.size());
  values_.push_back(std::move(value));
  inputs_.push_back(static_cast<ValueId>(values_.size() - 1));
  return inputs_.back();
}

ValueId Graph::add_constant(Tensor tensor, std::string constant_name) {
  GraphValue value;
  value.source = ValueSource::constant;
  value.source_index = static_cast<uint32_t>(constants_.size());
  value.name = std::move(constant_name);
  value.meta = meta_of(tensor);
  value.offset = tensor.storage_offset();
  value.flags.static_address = true;
  constants_.push_back(std::move(tensor));
  values_.push_back(std::move(value));
  constant_values_.push_back(static_cast<ValueId>(values_.size() - 1));
  return constant_values_.back();
}

NodeId Graph::add_node(OpId op, std::span<const Value> args, std::vector<GraphValue> results) {
  Node node;
  node.op = op;
  node.first_result = static_cast<ValueId>(values_.size());
  node.n_results = static_cast<uint32_t>(results.size());
  nodes_.push_back(std::move(node));
  auto id = static_cast<NodeId>(nodes_.size() - 1);
  set_args(id, args);
  for (size_t i = 0; i < results.size(); ++i) {
    results[i].source = ValueSource::node;
    results[i].source_index = id;
    results[i].result_index = static_cast<uint32_t>(i);
    values_.push_back(std::move(results[i]));
  }
  return id;
}

std::span<const Value> Graph::intern_args(std::span<const Value> args) {
  auto* copy = static_cast<Value*>(allocate(args.size() * sizeof(Value), 8));
  for (size_t i = 0; i < args.size(); ++i) new (copy + i) Value(intern(args[i]));
  return {copy, args.size()};
}

void Graph::set_args(NodeId id, std::span<const Value> args) {
  nodes_[id].args = intern_args(args);
}

std::vector<std::vector<NodeId>> Graph::users() const {
  std::vector<std::vector<NodeId>> users(values_.size());
  for (NodeId n = 0; n < nodes_.size(); ++n)
    for_each_use(nodes_[n], [&](ValueId v) {
      if (users[v].empty() || users[v].back() != n) users[v].push_back(n);
    });
  return users;
}

void Graph::erase_nodes(const std::vector<bool>& dead) {
  std::vector<ValueId> renumbered(values_.size(), no_value);
  std::vector<GraphValue> values;
  std::vector<NodeId> new_node(nodes_.size(), no_value);
  NodeId next = 0;
  for (NodeId n = 0; n < nodes_.size(); ++n)
    if (!dead[n]) new_node[n] = next++;
  for (ValueId v = 0; v < values_.size(); ++v) {
    GraphValue& value = values_[v];
    if (value.source == ValueSource::node) {
      if (new_node[value.source_index] == no_value) continue;
      value.source_index = new_node[value.source_index];
    }
    renumbered[v] = static_cast<ValueId>(values.size());
    values.push_back(std::move(value));
  }
  std::vector<Node> nodes;
  for (NodeId n = 0; n < nodes_.size(); ++n) {
    if (dead[n]) continue;
    Node& node = nodes_[n];
    if (node.n_results) node.first_result = renumbered[node.first_result];
    for (const Value& arg : node.args) {
      auto& a = const_cast<Value&>(arg);  // the arena is ours
      if (a.tag == Tag::ref) a.payload = renumbered[a.payload];
      if (a.tag == Tag::refs)
        for (uint32_t i = 0; i < a.count; ++i) {
          ValueId& id = const_cast<ValueId*>(a.as<ValueId>())[i];
          if (id != no_value) id = renumbered[id];
        }
    }
    nodes.push_back(std::move(node));
  }
  nodes_ = std::move(nodes);
  values_ = std::move(values);
  auto renumber = [&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids)
      if (id != no_value) id = renumbered[id];
  };
  renumber(inputs_);
  renumber(outputs_);
  renumber(constant_values_);
  std::erase_if(symbols, [&](const SymbolBinding& s) { return renumbered[s.value] == no_value; });
  for (SymbolBinding& s : symbols) s.value = renumbered[s.value];
}

std::string to_text(const GraphValue& value) {
  switch (value.kind) {
    case ValueKind::tensor:
      return std::string(name_of(value.meta.dtype)) + symbolic_text(list_of(value.meta.sizes));
    case ValueKind::sym_int:
      return "int " + symbolic_text(value.scalar);
    case ValueKind::sym_float:
      return "float " + symbolic_text(value.scalar);
    case ValueKind::sym_bool:
      return "bool " + symbolic_text(value.scalar);
    default:
      return "none";
  }
}

std::shared_ptr<Graph> clone(const Graph& graph) {
  auto copy = std::make_shared<Graph>();
  copy->name = graph.name;
  copy->shape_env = graph.shape_env;
  std::map<const Graph*, const Graph*> bodies;
  for (const std::shared_ptr<Graph>& sub : graph.subgraphs)
    bodies[sub.get()] = copy->subgraphs.emplace_back(clone(*sub)).get();
  // Values are added in the order of their ids, so that ids stay the same.
  auto add_sources_before = [&](size_t end) {
    for (ValueId v = static_cast<ValueId>(copy->values().size()); v < end; ++v) {
      const GraphValue& value = graph.value(v);
      if (value.source == ValueSource::input)
        copy->add_input(value);
      else
        copy->value(copy->add_constant(graph.constant(v), value.name)) = value;
    }
  };
  for (const Node& node : graph.nodes()) {
    if (node.n_results) add_sources_before(node.first_result);
    auto results = graph.values().subspan(node.n_results ? node.first_result : 0, node.n_results);
    std::vector<Value> given(node.args.begin(), node.args.end());
    for (Value& a : given)
      if (auto body = bodies.find(a.as<Graph>()); a.tag == Tag::graph && body != bodies.end())
        a = Value::pointer(Tag::graph, body->second);
    Node& added = copy->node(copy->add_node(node.op, given, {results.begin(), results.end()}));
    std::span<const Value> args = added.args;
    ValueId first = added.first_result;
    added = node;
    added.args = args;
    added.first_result = first;
  }
  add_sources_before(graph.values().size());
  copy->set_outputs({graph.outputs().begin(), graph.outputs().end()});
  copy->symbols = graph.symbols;
  return copy;
}

std::string display_name(const Graph& graph, ValueId id) {
  const std::string& given = graph.value(id).name;
  return given.empty() ? "v" + std::to_string(id) : given;
}

}  // namespace tenon
