// Values become nodes; an op with several results becomes a tuple and a `getitem` for each.
#include "partition/from_graph.h"

#include "core/error.h"
#include "core/sym/cost_hint.h"
#include "graph/passes/aliasing.h"
#include "graph/passes/passes.h"
#include "graph/record.h"
#include "ops/op_table.h"

#include <tenon/plugin.h>

#include <algorithm>

namespace tenon::partition {

namespace {

constexpr int64_t unknown_elements = 4096;

JointNode::Type type_of(const GraphValue& value) {
  switch (value.kind) {
    case ValueKind::tensor:
      return JointNode::Type::tensor;
    case ValueKind::sym_int:
      return JointNode::Type::sym_int;
    case ValueKind::sym_float:
      return JointNode::Type::sym_float;
    case ValueKind::sym_bool:
      return JointNode::Type::sym_bool;
    default:
      return JointNode::Type::none;
  }
}

class Viewer {
 public:
  explicit Viewer(const Lowered& joint) : graph_(*joint.graph), derivative_(*joint.derivative) {
    out_.of_value.resize(graph_.values().size(), no_node);
  }

  JointView run() {
    out_.graph.name = graph_.name;
    read_ = read_values();
    binds_symbol_ = nodes_that_bind();
    for (uint32_t i = 0; i < graph_.inputs().size(); ++i) add_input(i);
    for (NodeId n = 0; n < graph_.nodes().size(); ++n) add_node(n);
    add_outputs();
    return std::move(out_);
  }

 private:
  std::vector<bool> read_values() const {
    std::vector<bool> read(graph_.values().size());
    for (const Node& node : graph_.nodes())
      Graph::for_each_use(node, [&](ValueId v) { read[v] = true; });
    for (ValueId v : graph_.outputs())
      if (v != no_value) read[v] = true;
    return read;
  }

  std::vector<bool> nodes_that_bind() const {
    std::vector<bool> binds(graph_.nodes().size());
    for (const SymbolBinding& b : graph_.symbols)
      if (b.value != no_value && graph_.value(b.value).source == ValueSource::node)
        binds[graph_.value(b.value).source_index] = true;
    return binds;
  }

  int64_t hint(SymInt size) const {
    if (!size.is_symbolic()) return size.word();
    return graph_.shape_env ? cost_hint(*graph_.shape_env, size).value_or(-1) : -1;
  }

  JointNode node_of(ValueId v) const {
    const GraphValue& value = graph_.value(v);
    JointNode node;
    node.type = type_of(value);
    if (node.type != JointNode::Type::tensor) return node;
    int64_t elements = 1;
    for (SymInt size : value.meta.sizes) {
      node.sizes.push_back(std::max<int64_t>(hint(size), 0));
      elements = hint(size) < 0 || elements < 0 ? -1 : elements * hint(size);
    }
    for (SymInt stride : value.meta.strides)
      node.strides.push_back(std::max<int64_t>(hint(stride), 0));
    node.bytes = (elements < 0 ? unknown_elements : elements) *
                 static_cast<int64_t>(itemsize(value.meta.dtype));
    // Joint graphs are recorded, so the groups are exact.
    node.storage = value.alias_group ? static_cast<int64_t>(value.alias_group) : -1;
    return node;
  }

  JointId add(JointNode node, std::string name, ValueId value) {
    auto id = static_cast<JointId>(out_.graph.nodes.size());
    node.name = std::move(name);
    out_.graph.nodes.push_back(std::move(node));
    out_.value_of.push_back(value);
    if (value != no_value) out_.of_value[value] = id;
    return id;
  }

  void add_input(uint32_t index) {
    ValueId v = graph_.inputs()[index];
    JointNode node = node_of(v);
    bool is_primal = index < derivative_.n_primals;
    node.kind = is_primal ? JointNode::Kind::primal : JointNode::Kind::tangent;
    node.tag = is_primal ? JointNode::Tag::forward : JointNode::Tag::backward;
    uint32_t number = is_primal ? index + 1 : index + 1 - derivative_.n_primals;
    JointId id =
        add(std::move(node), message("{}_{}", is_primal ? "primals" : "tangents", number), v);
    const ValueFlags& flags = graph_.value(v).flags;
    if (is_primal && (flags.parameter || flags.buffer || flags.static_address))
      out_.graph.static_inputs.push_back(id);
  }

  void add_node(NodeId n) {
    const Node& node = graph_.node(n);
    const OpEntry& op = entry_of(node.op);
    bool is_tuple = node.n_results != 1 || op.schema.returns_list();
    JointNode call = is_tuple ? JointNode() : node_of(node.first_result);
    if (is_tuple) call.type = JointNode::Type::tuple;
    call.target = op.name;
    call.tag = node.is_backward ? JointNode::Tag::backward : JointNode::Tag::forward;
    call.effect = (op.tags & TN_TAG_SIDE_EFFECT) != 0 || written_args(node) != 0;
    call.draws = draws_numbers(node);
    call.binds_symbol = binds_symbol_[n];
    call.builtin = is_builtin(op.name);
    note_region(node, call);
    // Who copies a value may write what it was computed from before the backward runs.
    bool is_kept = call.region < 0 && !node.is_backward && is_plain_copy(graph_, n);
    if (is_kept) call.recompute = JointNode::Recompute::must_save;
    add_arguments(node, call);
    if (!is_tuple) {
      add(std::move(call), display_name(graph_, node.first_result), node.first_result);
      return;
    }
    JointNode like = call;
    like.draws = false;
    JointId tuple = add(std::move(call), message("node_{}", n), no_value);
    out_.node_of_tuple[tuple] = n;
    for (uint32_t r = 0; r < node.n_results; ++r) add_part(tuple, like, node.first_result + r, r);
  }

  // Calls of a checkpointed region are computed again.
  static void note_region(const Node& node, JointNode& call) {
    call.region = region_of(node);
    if (call.region >= 0) call.recompute = JointNode::Recompute::prefer_recompute;
  }

  void add_part(JointId tuple, const JointNode& like, ValueId v, uint32_t index) {
    if (!read_[v] || graph_.value(v).kind == ValueKind::none) return;
    JointNode part = node_of(v);
    part.target = "getitem";
    part.tag = like.tag;
    part.recompute = like.recompute;
    part.region = like.region;
    part.inputs = {tuple};
    part.n_direct = 1;
    part.arguments = message("%{}, {}", tuple, index);
    add(std::move(part), display_name(graph_, v), v);
  }

  // Equal calls were merged before: no text of the arguments is needed.
  void add_arguments(const Node& node, JointNode& call) const {
    std::vector<JointId> in_lists;
    for (const Value& a : node.args)
      for_each_value(a, [&](ValueId v) {
        auto& inputs = a.tag == Tag::refs ? in_lists : call.inputs;
        if (out_.of_value[v] != no_node) inputs.push_back(out_.of_value[v]);
      });
    call.n_direct = static_cast<uint32_t>(call.inputs.size());
    call.inputs.insert(call.inputs.end(), in_lists.begin(), in_lists.end());
  }

  static bool is_builtin(std::string_view name) {
    return name.starts_with("aten.") || name.starts_with("prims.") || name.starts_with("sym.") ||
           name.starts_with("tenon.");
  }

  // Constants among the outputs are not nodes: the halves give them by themselves.
  void add_outputs() {
    size_t n_gradients = derivative_.gradients.size();
    auto outputs = graph_.outputs();
    for (ValueId v : outputs.first(outputs.size() - n_gradients))
      if (v != no_value && out_.of_value[v] != no_node)
        out_.graph.outputs.push_back(out_.of_value[v]);
    out_.graph.n_forward_outputs = static_cast<uint32_t>(out_.graph.outputs.size());
    std::vector<JointId> gradients(derivative_.n_primals, no_node);
    for (size_t g = 0; g < n_gradients; ++g)
      gradients[derivative_.gradients[g]] =
          out_.of_value[outputs[outputs.size() - n_gradients + g]];
    out_.graph.outputs.insert(out_.graph.outputs.end(), gradients.begin(), gradients.end());
  }

  const Graph& graph_;
  const Derivative& derivative_;
  std::vector<bool> read_, binds_symbol_;
  JointView out_;
};

}  // namespace

JointView view_of(const Lowered& joint) { return Viewer(joint).run(); }

}  // namespace tenon::partition
