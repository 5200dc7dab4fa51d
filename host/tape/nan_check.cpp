// Naming leaves whose gradients have NaNs.
#include "tape/nan_check.h"

#include "autograd/engine.h"
#include "autograd/grad_state.h"
#include "core/dispatch.h"
#include "core/error.h"

namespace tenon::tape {

namespace {

bool has_nan(const Tensor& t) { return t.defined() && static_cast<bool>(t.isnan().any()); }

std::string name_of_leaf(const TapeWalk& walk, const Node& node) {
  size_t number = 0;
  for (const Visit& v : walk.visits) {
    if (v.node == &node) break;
    number += v.is_leaf;
  }
  return message("leaf {} of shape {}", number, list_of(node.inputs[0].sizes));
}

// The op whose derivative gives the gradient, if it is one alone.
std::string origin_of_gradient(const TapeWalk& walk, const Node& leaf) {
  const Node* from = nullptr;
  for (const Visit& v : walk.visits)
    for (const Edge& edge : v.node->next) {
      if (edge.node.get() != &leaf) continue;
      if (std::exchange(from, v.node)) return {};
    }
  if (!from) return {};
  std::string text = message(", which {} gives", from->name());
  for (const std::string& line : from->anomaly_trace) text += "\n" + line;
  return text;
}

}  // namespace

void check_nan(const TapeWalk& walk, const Node& node, const Tensor& grad) {
  if (!autograd::anomaly_mode().enabled || !autograd::anomaly_mode().check_nan) return;
  BelowAutograd below;
  const Tensor& leaf = leaf_of(node);
  require(
      !has_nan(autograd::ensure_state(leaf).grad),
      "compiled autograd: the gradient of {} had a NaN before this backward pass; clear it with "
      "set_grad({{}})",
      name_of_leaf(walk, node));
  require(!has_nan(grad),
          "compiled autograd computed NaN gradients for parameters: {}{}\nrun the pass under "
          "compiled_autograd::disable() to learn which op they come from",
          name_of_leaf(walk, node), origin_of_gradient(walk, node));
}

}  // namespace tenon::tape
