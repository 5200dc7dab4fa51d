// What autograd hangs on a tensor: its gradient, and where on the tape it was made.
#pragma once

#include "autograd/node.h"

namespace tenon::autograd {

class LeafUpdate;

struct PostAccumulate {
  uint64_t id;
  PostAccumulateHook call;
  std::shared_ptr<const LeafUpdate> update = {};  ///< that `call` runs, if it is one
};

struct GradState : GradAttachment {
  Tensor grad;
  std::shared_ptr<Node> node;  ///< what made the tensor; null for leaves
  uint32_t node_input = 0;
  std::weak_ptr<Node> accumulator;                 ///< of leaves
  std::vector<NodeHooks::Hook<TensorHook>> hooks;  ///< of leaves
  std::vector<PostAccumulate> after_accumulate;
  std::shared_ptr<Tensor> retained;  ///< after retain_grad(): takes the place of `grad`
  bool from_no_grad = false;         ///< a view made while gradients were off
  bool from_list = false;            ///< one of several views that one op has made
  /// Of accumulator, hooks and grad. A gradient is added up while it is held, and who records that
  /// operation looks at the gradients of what it has met: recursive.
  std::recursive_mutex lock;
};

GradState* state_of(const Tensor& t);  ///< null when there is none
GradState& ensure_state(const Tensor& t);
/// Where the hooks of a leaf are: of an argument of a body, which is a fake, those of the tensor that
/// it stands for.
GradState& state_with_hooks(const Tensor& leaf);

/// The node that made `t`, null for leaves. Of a view whose base was written in place since it was
/// made, a new node that reads from the base.
std::shared_ptr<Node> node_of(const Tensor& t);
/// Whether `t` has one, which may be due.
bool has_history(const Tensor& t);
/// Whether edge_of() gives one.
bool has_edge(const Tensor& t);
/// `t`, or the captured tensor that it stands for on the tape of a body.
Tensor with_history_of(const Tensor& t);
/// Where the gradient of `t` goes: its node, or the accumulator of a leaf; none when it needs no
/// gradient.
Edge edge_of(const Tensor& t);
/// Says that input `input` of `node` is the gradient of `t`.
void set_history(const Tensor& t, std::shared_ptr<Node> node, uint32_t input);
/// The same, of a node that is due.
void mark_late_history(const Tensor& t);

}  // namespace tenon::autograd
