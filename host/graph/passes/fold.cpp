// Constant folding.
//
// Problem: parts of a graph depend on constants alone, or on nothing (`zeros`, `arange`), and are
//   computed again at every call.
// Model: a pure node whose tensor arguments are all small constants and whose other arguments are
//   plain has results that can be constants. Not if somebody may write them: another node, or the
//   caller, who gets a fresh tensor from the node but would get the constant itself. Nodes that
//   only view a constant are folded like others: the new constant shares its memory.
// Method: one walk forwards; each such node is run once through dispatch, below autograd and
//   outside of any trace, and its results replace its values. A chain folds in one walk, since the
//   results are constants when the next node is looked at.
// Cost: that of the ops themselves on tensors of at most `max_elements`.
#include <algorithm>

#include "core/tensor/tensor_impl.h"
#include "graph/passes/aliasing.h"
#include "graph/passes/passes.h"
#include "graph/record.h"

namespace tenon {

namespace {

/// Ops run for real and leave no trace, whatever the thread is in the middle of.
class RealMode {
 public:
  RealMode()
      : modes_(0, bit(Key::trace) | bit(Key::autograd) | keys_of_user),
        include_(thread_modes.include) {
    thread_modes.include = 0;
  }
  ~RealMode() { thread_modes.include = include_; }
  RealMode(const RealMode&) = delete;

 private:
  PauseRecording pause_;
  ModeScope modes_;
  uint64_t include_;
};

class Folder {
 public:
  Folder(Graph& graph, const FoldOptions& options)
      : graph_(graph),
        options_(options),
        classes_(graph),
        n_values_(graph.values().size()),
        constant_(graph.values().size(), no_value),
        dead_(graph.nodes().size()) {
    for (ValueId v : graph.constants())
      if (is_small(graph.constant(v))) constant_[v] = v;
  }

  bool run() {
    for (NodeId n = 0; n < graph_.nodes().size(); ++n)
      if (may_fold(graph_.node(n))) fold(n);
    if (std::find(dead_.begin(), dead_.end(), true) == dead_.end()) return false;
    std::vector<ValueId> replacement(n_values_, no_value);
    for (ValueId v = 0; v < n_values_; ++v)
      if (constant_[v] != v) replacement[v] = constant_[v];
    replace_values(graph_, replacement);
    graph_.erase_nodes(dead_);
    return true;
  }

 private:
  bool is_small(const Tensor& t) const {
    return t.defined() && !t.is_fake() && !t.requires_grad() &&
           t.device().type == DeviceType::cpu && impl_of(t)->numel <= options_.max_elements;
  }

  bool has_plain_args(const Node& node) const {
    for (const Value& arg : node.args)
      if (arg.tag == Tag::graph || arg.tag == Tag::opaque || arg.is_symbolic()) return false;
    return true;
  }

  bool has_small_results(const Node& node) const {
    int64_t total = 0;
    for (uint32_t r = 0; r < node.n_results; ++r) {
      const GraphValue& value = graph_.value(node.first_result + r);
      bool plain = value.kind == ValueKind::tensor && value.meta.defined &&
                   !value.flags.requires_grad && value.meta.device.type == DeviceType::cpu &&
                   !list_of(value.meta.sizes).is_symbolic();
      if (!plain) return false;
      int64_t elements = 1;
      for (SymInt size : value.meta.sizes)
        if (__builtin_mul_overflow(elements, size.word(), &elements)) return false;
      if (__builtin_add_overflow(total, elements, &total) || total > options_.max_elements)
        return false;
    }
    return node.n_results > 0;
  }

  bool may_fold(const Node& node) const {
    if (!is_pure(node) || !has_plain_args(node) || !has_small_results(node)) return false;
    bool fits = true;
    Graph::for_each_use(
        node, [&](ValueId v) { fits &= constant_[v] != no_value && !classes_.is_written(v); });
    for (uint32_t r = 0; r < node.n_results; ++r) {
      ValueId v = node.first_result + r;
      fits &= !classes_.is_written(v) && !classes_.escapes(v);
    }
    return fits;
  }

  std::vector<Tensor> run_node(const Node& node) const {
    std::vector<Value> args(node.args.begin(), node.args.end());
    ArgumentLists lists;
    auto constant = [this](ValueId v) { return Value::of(graph_.constant(constant_[v])); };
    map_arguments(args, lists, constant, keep_numbers);
    bool is_list = entry_of(node.op).schema.returns_list();
    std::vector<Value> results(is_list ? 1 : node.n_results);
    RealMode real;
    call_op(node.op, args.data(), static_cast<uint32_t>(args.size()), results.data(),
            static_cast<uint32_t>(results.size()));
    if (is_list) return take<std::vector<Tensor>>(results[0]);
    std::vector<Tensor> tensors;
    for (Value& result : results) tensors.push_back(take<Tensor>(result));
    return tensors;
  }

  // What the op gives must be what the graph says of it, or the graph stays as it is.
  bool as_described(const Node& node, const std::vector<Tensor>& tensors) const {
    if (tensors.size() != node.n_results) return false;
    for (uint32_t r = 0; r < node.n_results; ++r) {
      GraphValue found;
      if (!tensors[r].defined()) return false;
      found.meta = meta_of(tensors[r]);
      found.offset = sym_offset_of(tensors[r]);
      if (!same_meta(found, graph_.value(node.first_result + r))) return false;
    }
    return true;
  }

  void fold(NodeId n) {
    std::vector<Tensor> tensors;
    try {
      tensors = run_node(graph_.node(n));
    } catch (const UserError&) {
      return;  // the call itself will report it
    }
    if (!as_described(graph_.node(n), tensors)) return;
    dead_[n] = true;
    for (uint32_t r = 0; r < tensors.size(); ++r) {
      ValueId old = graph_.node(n).first_result + r;
      ValueId added = graph_.add_constant(std::move(tensors[r]), graph_.value(old).name);
      graph_.value(added).alias_group = graph_.value(old).alias_group;
      constant_[old] = added;
    }
  }

  Graph& graph_;
  const FoldOptions& options_;
  AliasClasses classes_;
  size_t n_values_;
  std::vector<ValueId> constant_;  // the constant that holds a value, or no_value
  std::vector<bool> dead_;
};

}  // namespace

bool fold_constants(Graph& graph, const FoldOptions& options) {
  return Folder(graph, options).run();
}

}  // namespace tenon
