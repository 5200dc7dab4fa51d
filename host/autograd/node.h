// Nodes of the tape: what a backward pass walks.
//
// A recorded op makes one node. Its inputs are the gradients of the op's results, its outputs those
// of the op's arguments; `next` says where each output goes: input `input` of another node.
#pragma once

#include <tenon/autograd.h>
#include "core/dispatch.h"
#include "core/tensor/tensor_impl.h"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tenon {
class Graph;
struct Node;          // of a graph
struct StreamChoice;  // core/device/stream_choice.h
}  // namespace tenon

namespace tenon::autograd {

struct Edge {
  std::shared_ptr<Node> node;
  uint32_t input = 0;
  explicit operator bool() const { return node != nullptr; }
};

/// What a gradient must look like: the tensor it belongs to.
struct GradMeta {
  Dims sizes;
  Dtype dtype = Dtype::f32;
  Device device;
  uint64_t trace_id = 0;  ///< of a fake: whose it was, and which value
  uint32_t trace_value = 0;
};
GradMeta grad_meta_of(const Tensor& t);

// Most ops have one or two arguments that need gradients, and one result: a node is one allocation.
using Edges = InlineVector<Edge, 2>;

/// Callables around a node, in the order of registration; ids are those of their handles.
struct NodeHooks {
  template <class F>
  struct Hook {
    uint64_t id;
    F call;
  };
  struct TensorHooks {
    uint32_t input;
    std::vector<Hook<TensorHook>> hooks;
  };
  std::vector<TensorHooks> tensors;  ///< on one input each, before the others
  std::vector<Hook<NodePreHook>> before;
  std::vector<Hook<NodePostHook>> after;
  /// By input: where its gradient is added up for a tensor that retains it; after the hooks of
  /// tensors. A cell, since the tensor itself would keep the node alive that keeps it.
  std::vector<std::shared_ptr<Tensor>> retains;
  uint64_t last_retain = 0;  ///< an id of hooks, drawn when the newest of them was added
};

class Collector;

class Node : public std::enable_shared_from_this<Node> {
 public:
  /// Taken by the engine before nodes with a lower one. Threads count apart.
  Node();
  explicit Node(uint64_t sequence);
  virtual ~Node();
  Node(const Node&) = delete;

  /// "MulBackward", as in PyTorch without the number of the overload.
  virtual std::string name() const = 0;
  /// From the gradients of the results (undefined: zero) those of the arguments, one for each edge;
  /// undefined where there is none. Under the caller's grad mode.
  virtual std::vector<Tensor> apply(std::vector<Tensor> grads) = 0;
  /// Drops what is kept for `apply`.
  virtual void release() {}
  /// The operation that made it is `made` in a recording: symbols take the places of the plain
  /// numbers and sizes that are kept of it.
  virtual void take_symbols(const Graph&, const tenon::Node&) {}
  /// Gradients of these inputs, one bit each, were used by code in the place of `apply`.
  virtual void note_reached(uint64_t) {}
  /// Writes what code for this node depends on and what it takes; false, with nothing of worth
  /// written, where `apply` can only be called: what it does cannot be told from that.
  virtual bool collect(Collector&) const { return false; }
  /// Of a node that stands for several of a plain run: the one of them that an input belongs to,
  /// counted in the order in which they would be made.
  virtual uint32_t rank_of_input(uint32_t) const { return 0; }
  /// Whether it stands for several of a plain run: an edge that it gives no gradient is one that
  /// they need not have, and calls nobody.
  virtual bool joins_nodes() const { return false; }
  /// "op, at file:line", what made the node; empty when not known.
  virtual std::string origin() const { return {}; }

  uint64_t sequence() const { return sequence_; }
  /// Made while the thread recorded its operations, or compared them with recorded ones.
  bool is_of_body() const { return is_of_body_; }
  size_t n_inputs() const { return inputs.size(); }
  /// Adds an input for the gradient of `result` and returns its number.
  uint32_t add_input(const Tensor& result) {
    inputs.push_back(grad_meta_of(result));
    return static_cast<uint32_t>(inputs.size() - 1);
  }
  /// One for each result of a call.
  void add_inputs(const CallArgs& call);
  NodeHooks& ensure_hooks() {
    if (!hooks) hooks = std::make_unique<NodeHooks>();
    return *hooks;
  }

  Edges next;
  InlineVector<GradMeta, 1> inputs;
  std::unique_ptr<NodeHooks> hooks;
  /// Held while the node runs: passes of several threads may share it. A pass inside of a hook may
  /// come by again.
  std::recursive_mutex lock;
  std::vector<std::string> anomaly_trace;  ///< the calls that made it, in anomaly mode
  std::weak_ptr<Node> write_to_view;  ///< the node of a view's base that this one stands within
  /// The streams of the thread when the node was made; it runs under them.
  std::shared_ptr<const StreamChoice> streams;

 private:
  uint64_t sequence_;
  bool is_of_body_;
};

/// Runs a node's function outside of any lock order: PyTorch's `AccumulateGrad` and the like come
/// first among ready nodes.
inline constexpr uint64_t first_sequence = ~uint64_t{0};

void remove_hook(Node& node, uint64_t id);
/// Whether hooks come before or behind its function.
inline bool has_node_hooks(const Node& node) {
  return node.hooks && !(node.hooks->before.empty() && node.hooks->after.empty());
}
uint64_t new_hook_id();
/// The gradient that goes into this input is added up in `cell`, after the hooks of the tensor.
void retain_grad_at(Node& node, uint32_t input, std::shared_ptr<Tensor> cell);

bool same_sizes(SymIntList a, SymIntList b);

/// Sums `grad` to the shape of `meta`, and casts it; `who` names the node for messages.
Tensor fit_gradient(Tensor grad, const GradMeta& meta, const Node& who, size_t index);

}  // namespace tenon::autograd
