// Canonical order and removal of what changes nothing.
//
// Problem: equal computations are written in different ways, which hides them from the merging of
//   common subexpressions and costs copies.
// Model, only what holds to the last bit:
//   1. a op b = b op a for commutative ops; operands are ordered by value id. Only where both
//      operands have the same described layout, because the first one decides the result's strides.
//   2. A view with the dtype, sizes, strides and offset of what it views is that value.
//   3. A copy (`clone`, `_to_copy`) with the described layout of its source is that value, where
//      nobody writes either, nobody looks at the memory of the copy by place, and the copy does not
//      leave the graph. Between a forward and a backward the caller may write an input, from which a
//      copy is not to be computed again: copies of the forward can be kept.
//   2 and 3 hold only where nobody writes the memory or metadata of the values, and never for
//   outputs: a caller who got two tensors gets two tensors. `detach` stays where a gradient would
//   flow.
// Method: one walk forwards; replacements are applied in one go. Cost: linear.
#include "core/tensor/tensor_impl.h"
#include "graph/passes/aliasing.h"
#include "graph/passes/passes.h"

#include <algorithm>

namespace tenon {

namespace {

class Canonicalizer {
 public:
  Canonicalizer(Graph& graph, const CanonicalOptions& options)
      : graph_(graph),
        options_(options),
        classes_(graph),
        replacement_(graph.values().size(), no_value),
        dead_(graph.nodes().size()),
        is_seen_by_place_(graph.values().size()) {
    for (const Node& node : graph.nodes()) note_places(node);
  }

  bool run() {
    bool changed = false;
    for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
      changed |= order_operands(n);
      changed |= remove_identity(n);
    }
    if (!changed) return false;
    replace_values(graph_, replacement_);
    graph_.erase_nodes(dead_);
    return true;
  }

 private:
  // A copy begins its memory; what it copies may be anywhere in some other, in each call elsewhere.
  void note_places(const Node& node) {
    if (!(entry_of(node.op).tags & TN_TAG_BY_PLACE)) return;
    Graph::for_each_use(node, [&](ValueId v) { is_seen_by_place_[classes_.of(v)] = true; });
  }

  // x + 2*y is not 2*y + x in this form: a factor other than 1 keeps its place.
  bool is_commutative(const Node& node) const {
    const OpEntry& op = entry_of(node.op);
    if (!(op.def->tags & OpTags::commutative) || op.functional) return false;
    for (size_t i = 2; i < node.args.size(); ++i) {
      const Value& arg = node.args[i];
      if (arg.tag != Tag::integer || arg.payload != 1) return false;
    }
    return node.args[0].tag == Tag::ref && node.args[1].tag == Tag::ref;
  }

  bool order_operands(NodeId n) {
    const Node& node = graph_.node(n);
    if (!is_commutative(node)) return false;
    auto a = static_cast<ValueId>(node.args[0].payload),
         b = static_cast<ValueId>(node.args[1].payload);
    GraphValue x = graph_.value(a), y = graph_.value(b);
    x.offset = y.offset = 0;  // where the operands lie does not matter
    if (a <= b || !same_meta(x, y) || is_number_constant(a) || is_number_constant(b)) return false;
    std::vector<Value> args(node.args.begin(), node.args.end());
    std::swap(args[0], args[1]);
    graph_.set_args(n, args);
    return true;
  }

  bool is_number_constant(ValueId v) const {
    return graph_.value(v).source == ValueSource::constant && is_wrapped_number(graph_.constant(v));
  }

  bool is_output(ValueId v) const {
    return std::find(graph_.outputs().begin(), graph_.outputs().end(), v) != graph_.outputs().end();
  }

  bool is_identity_view(const Node& node, const OpEntry& op, ValueId source) const {
    if (!(op.tags & TN_TAG_VIEW) && !(op.def->tags & OpTags::relayout)) return false;
    bool needs_grad = graph_.value(source).flags.requires_grad;
    bool may_need_it = needs_grad || (options_.keep_ends_of_gradients && !node.is_backward);
    return needs_grad == graph_.value(node.first_result).flags.requires_grad &&
           !(may_need_it && op.def->vjp.kind == Vjp::Kind::none);
  }

  bool is_idle_copy(const Node& node, const OpEntry& op) const {
    return op.def->tags & OpTags::copy && !classes_.escapes(node.first_result) &&
           !is_seen_by_place_[classes_.of(node.first_result)] &&
           (node.is_backward || !options_.keep_forward_copies);
  }

  bool remove_identity(NodeId n) {
    const Node& node = graph_.node(n);
    const OpEntry& op = entry_of(node.op);
    if (node.n_results != 1 || op.mutated_args || op.schema.returns_list() || node.args.empty() ||
        node.args[0].tag != Tag::ref)
      return false;
    auto source = static_cast<ValueId>(node.args[0].payload);
    ValueId result = node.first_result;
    if (!same_meta(graph_.value(source), graph_.value(result)) || is_output(result) ||
        classes_.is_written(source) || classes_.is_written(result))
      return false;
    if (!is_identity_view(node, op, source) && !is_idle_copy(node, op)) return false;
    replacement_[result] = source;
    dead_[n] = true;
    return true;
  }

  Graph& graph_;
  const CanonicalOptions& options_;
  AliasClasses classes_;
  std::vector<ValueId> replacement_;
  std::vector<bool> dead_;
  std::vector<bool> is_seen_by_place_;  // by class
};

}  // namespace

bool canonicalize(Graph& graph, const CanonicalOptions& options) {
  return Canonicalizer(graph, options).run();
}

bool is_plain_copy(const Graph& graph, NodeId n) {
  const Node& node = graph.node(n);
  if (!(entry_of(node.op).def->tags & OpTags::copy) || node.args[0].tag != Tag::ref) return false;
  const GraphValue &source = graph.value(static_cast<ValueId>(node.args[0].payload)),
                   &result = graph.value(node.first_result);
  return same_meta(source, result);
}

}  // namespace tenon
