// Copying a graph: values keep their metadata, symbols and shared memory.
#include "graph/copy.h"

#include "core/error.h"
#include "core/sym/sym_int.h"
#include "core/tensor/tensor_impl.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>

namespace tenon {

GraphCopy::GraphCopy(const Graph& from)
    : from_(from),
      recorder_(from.shape_env),
      ids_(from.values().size(), no_value),
      fakes_(from.values().size()) {
  recorder_.graph().name = from.name;
  recorder_.graph().subgraphs = from.subgraphs;
}

// Groups of aliases are found anew from the storages of the fakes.
GraphValue GraphCopy::described(const GraphValue& value) const {
  GraphValue out = value;
  out.alias_group = 0;
  out.flags.user_output = false;
  return out;
}

StorageRef GraphCopy::storage_of(const GraphValue& value) {
  if (value.alias_group == 0) return {};
  StorageRef& shared = storages_[value.alias_group];
  if (!shared) shared = make_fake_storage(value.meta.device);
  return shared;
}

// A view lies in the memory of what stands for the tensor that it is of.
Tensor GraphCopy::fake_of_result(const Node& node, const GraphValue& value) {
  ValueId viewed = no_value;
  if (value.alias_group != 0)
    Graph::for_each_use(node, [&](ValueId v) {
      bool is_it = viewed == no_value && from_.value(v).alias_group == value.alias_group;
      if (is_it && fakes_[v].defined()) viewed = v;
    });
  if (viewed == no_value) return make_fake(value.meta, value.offset, storage_of(value));
  SymInt before = from_.value(viewed).offset, now = sym_offset_of(fakes_[viewed]);
  bool has_moved = before.word() != now.word();
  return make_fake(value.meta, has_moved ? value.offset - before + now : value.offset,
                   impl_of(fakes_[viewed])->storage_ref);
}

void GraphCopy::map(ValueId original, ValueId copied, const Tensor& fake) {
  ids_[original] = copied;
  fakes_[original] = fake;
}

// Bound where the original binds them, so that recorded nodes do not bind them once more.
void GraphCopy::bind_symbols(ValueSource source, uint32_t node) {
  for (SymbolBinding b : from_.symbols) {
    const GraphValue& value = from_.value(b.value);
    if (value.source != source || (source == ValueSource::node && value.source_index != node))
      continue;
    b.value = ids_[b.value];
    recorder_.graph().symbols.push_back(b);
  }
}

void GraphCopy::add_inputs() {
  for (ValueId v : from_.inputs()) {
    const GraphValue& value = from_.value(v);
    if (value.kind != ValueKind::tensor) {
      map(v, recorder_.graph().add_input(described(value)), Tensor());
      continue;
    }
    Tensor fake =
        recorder_.add_input(value.meta, value.offset, described(value), storage_of(value));
    map(v, recorder_.value_of(fake), fake);
  }
  bind_symbols(ValueSource::input, 0);
}

void GraphCopy::add_constants() {
  for (ValueId v : from_.constants()) {
    Tensor fake = recorder_.add_constant(from_.constant(v), from_.value(v).name);
    map(v, recorder_.value_of(fake), fake);
  }
}

std::vector<Value> GraphCopy::arguments(const Node& node) {
  lists_ = {};
  std::vector<Value> args(node.args.begin(), node.args.end());
  map_arguments(
      args, lists_, [this](ValueId v) { return ids_[v]; }, keep_numbers);
  return args;
}

void label_as(const Node& node, Node& copy) {
  copy.name = node.name;
  copy.module_path = node.module_path;
  copy.where = node.where;
  copy.seq_nr = node.seq_nr;
  copy.is_backward = node.is_backward;
  copy.facts = node.facts;
}

void GraphCopy::add_node(NodeId n) {
  const Node& node = from_.node(n);
  std::vector<GraphValue> results;
  for (uint32_t r = 0; r < node.n_results; ++r)
    results.push_back(described(from_.value(node.first_result + r)));
  NodeId id = recorder_.graph().add_node(node.op, arguments(node), std::move(results));
  Node& copied = recorder_.graph().node(id);
  label_as(node, copied);
  for (uint32_t r = 0; r < node.n_results; ++r) {
    ValueId original = node.first_result + r;
    const GraphValue& value = from_.value(original);
    Tensor fake;
    if (value.kind == ValueKind::tensor) {
      fake = fake_of_result(node, value);
      recorder_.graph().value(copied.first_result + r).offset = sym_offset_of(fake);
      if (value.flags.requires_grad) mark_requires_grad(fake, true);
      recorder_.rebind(fake, copied.first_result + r);
    }
    map(original, copied.first_result + r, fake);
  }
  bind_symbols(ValueSource::node, n);
  follow(node);
}

// What is recorded next stands where the node stood.
void GraphCopy::follow(const Node& node) {
  recorder_.is_backward = node.is_backward;
  recorder_.where = node.where;
  recorder_.module_path = node.module_path;
  recorder_.region = region_of(node);
}

std::span<const Value> GraphCopy::call_arguments(NodeId n) {
  const Node& node = from_.node(n);
  follow(node);
  lists_ = {};
  asked_.assign(node.args.begin(), node.args.end());
  auto standing = [this](ValueId v) {
    ValueKind kind = from_.value(v).kind;
    return kind == ValueKind::tensor ? Value::of(fakes_[v])
           : kind == ValueKind::none ? Value{}
                                     : Value::of(from_.value(v).scalar);
  };
  map_arguments(asked_, lists_, standing, keep_numbers);
  return asked_;
}

void GraphCopy::replace(ValueId original, Tensor by) {
  const TensorMeta& meta = from_.value(original).meta;
  bool fits = by.defined() && by.dtype() == meta.dtype && by.device() == meta.device &&
              by.dim() == static_cast<int64_t>(meta.sizes.size());
  bool same_layout = true;
  for (size_t d = 0; fits && d < meta.sizes.size(); ++d) {
    fits = guard_or_false(by.sizes()[d] == meta.sizes[d]);
    same_layout = same_layout && (guard_or_false(by.strides()[d] == meta.strides[d]) ||
                                  guard_or_false(meta.sizes[d] == 1));
  }
  require(fits, "%{}: expected {}, found {}; a value keeps its dtype, device and sizes",
          display_name(from_, original), to_text(from_.value(original)),
          by.defined() ? symbolic_text(by) : "none");
  if (!same_layout)
    by = copy(
        empty_strided(list_of(meta.sizes), list_of(meta.strides), meta.dtype, {}, meta.device), by);
  map(original, recorder_.value_of(by), by);
}

std::shared_ptr<Graph> GraphCopy::finish() {
  std::shared_ptr<Graph> graph = recorder_.finish({});
  std::vector<ValueId> outputs;
  for (ValueId v : from_.outputs()) {
    outputs.push_back(v == no_value ? no_value : ids_[v]);
    if (outputs.back() != no_value) graph->value(outputs.back()).flags.user_output = true;
  }
  graph->set_outputs(std::move(outputs));
  return graph;
}

}  // namespace tenon
