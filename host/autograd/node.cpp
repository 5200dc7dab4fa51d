// Nodes: numbers, the end of long chains, hooks, and the shape of gradients.
#include "autograd/node.h"

#include "autograd/late_nodes.h"
#include "core/device/stream_choice.h"
#include "core/error.h"
#include "core/sym/sym_int.h"
#include "core/tensor/each_tensor.h"
#include "ops/shapes.h"

#include <algorithm>
#include <atomic>

namespace tenon::autograd {

thread_local constinit LateNodes* late_nodes = nullptr;

namespace {

// Nodes whose end waits until the one at hand is gone: a chain of a million nodes must not end in a
// million nested destructors.
using Dying = std::vector<std::shared_ptr<Node>>;
thread_local constinit Dying* dying_nodes = nullptr;  // of the outermost destructor that runs

// Nodes that are due were made before this one.
uint64_t next_sequence() {
  if (late_nodes) late_nodes->make();
  thread_local uint64_t next = 0;
  return next++;
}

}  // namespace

GradMeta grad_meta_of(const Tensor& t) {
  const TensorExtra* extra = impl_of(t)->extra.get();
  return {dims_of(t.sizes()), t.dtype(), t.device(), extra ? extra->trace_id : 0,
          extra ? extra->trace_value : 0};
}

Node::Node() : Node(next_sequence()) {}
Node::Node(uint64_t sequence) : sequence_(sequence), is_of_body_(thread_modes.tracer != nullptr) {
  if (are_streams_chosen()) streams = chosen_streams();
}

Node::~Node() {
  auto goes_on = [](const Edge& edge) {  // a leaf's node has nobody after it
    return edge.node && !edge.node->next.empty() && edge.node.use_count() == 1;
  };
  if (std::ranges::none_of(next, goes_on)) return;
  Dying own;
  bool is_outermost = !dying_nodes;
  if (is_outermost) dying_nodes = &own;
  for (Edge& edge : next)
    if (goes_on(edge)) dying_nodes->push_back(std::move(edge.node));
  if (!is_outermost) return;
  while (!own.empty()) {
    std::shared_ptr<Node> last = std::move(own.back());
    own.pop_back();
  }
  dying_nodes = nullptr;
}

void Node::add_inputs(const CallArgs& call) {
  each_result(call, [&](const Tensor& t, uint32_t) {
    if (t.defined())
      add_input(t);
    else
      inputs.emplace_back();
  });
}

bool same_sizes(SymIntList a, SymIntList b) {
  bool same = a.size() == b.size();
  for (size_t d = 0; same && d < a.size(); ++d) same = guard_or_false(a[d] == b[d]);
  return same;
}

uint64_t new_hook_id() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

void remove_hook(Node& node, uint64_t id) {
  std::lock_guard guard(node.lock);
  if (!node.hooks) return;
  auto is_it = [id](const auto& hook) { return hook.id == id; };
  for (auto& list : node.hooks->tensors) std::erase_if(list.hooks, is_it);
  std::erase_if(node.hooks->before, is_it);
  std::erase_if(node.hooks->after, is_it);
}

Tensor fit_gradient(Tensor grad, const GradMeta& meta, const Node& who, size_t index) {
  if (!grad.defined()) return grad;
  SymIntList wanted = list_of(meta.sizes);
  if (!same_sizes(grad.sizes(), wanted)) {
    bool broadcast = grad.sizes().size() >= wanted.size();
    size_t extra = broadcast ? grad.sizes().size() - wanted.size() : 0;
    for (size_t d = 0; broadcast && d < wanted.size(); ++d)
      broadcast =
          guard_or_false(wanted[d] == 1) || expect_true(grad.sizes()[d + extra] == wanted[d]);
    require(broadcast, "{} gave a gradient of shape {} for argument {}, which has shape {}",
            who.name(), grad.sizes(), index, wanted);
    grad = grad.sum_to_size(wanted);
  }
  if (!is_differentiable(grad.dtype()))  // the name costs as much as a node
    fail("{} gave a gradient of dtype {} for argument {} of dtype {}", who.name(), grad.dtype(),
         index, meta.dtype);
  return grad.dtype() == meta.dtype ? grad : grad.to(meta.dtype);
}

}  // namespace tenon::autograd
