// Control flow on real tensors: the ops that run are on the tape, and what the branch or the iterations
// that did not run would have given or needed is added.
#include "autograd/run_cond.h"

#include "autograd/engine.h"
#include "autograd/grad_state.h"
#include "autograd/tape.h"
#include "core/tensor/each_tensor.h"
#include "graph/control_flow.h"

#include <tenon/ops/create.h>

#include <algorithm>

namespace tenon::autograd {

namespace {

/// Of results that only what did not run would give a gradient.
class NoGradientNode final : public Node {
 public:
  explicit NoGradientNode(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  std::vector<Tensor> apply(std::vector<Tensor>) override { return {}; }

 private:
  std::string name_;
};

/// Before the results of the branch that ran: what only the other branch reads has gradients of
/// zeros, as in PyTorch, where cond is one function of all operands.
class IdleOperandsNode final : public Node {
 public:
  std::string name() const override { return "CondBackward"; }
  void pass_on(const Tensor& result) {
    next.push_back(edge_of(result));
    add_input(result);
  }
  void give_zeros(const Tensor& operand) {
    next.push_back(edge_of(operand));
    idle_.push_back(grad_meta_of(operand));
  }
  std::vector<Tensor> apply(std::vector<Tensor> grads) override {
    for (const GradMeta& meta : idle_)
      grads.push_back(zeros(list_of(meta.sizes), meta.dtype, {}, meta.device));
    return grads;
  }

 private:
  std::vector<GradMeta> idle_;
};

bool is_read(const Graph& body, ValueId input, const std::vector<std::vector<NodeId>>& users) {
  return !users[input].empty() || std::ranges::find(body.outputs(), input) != body.outputs().end();
}

// Those that need a gradient and that the branch to be taken does not read.
std::vector<Tensor> idle_operands(const CallArgs& call) {
  ControlCall parts = control_call(*call.op, call.args, call.n_args);
  const std::vector<Tensor>& operands = parts.operands[0];
  auto needs_grad = [](const Tensor& t) { return t.requires_grad(); };
  if (std::ranges::none_of(operands, needs_grad)) return {};
  const Value& predicate = call.args[0];
  bool holds =
      predicate.tag == Tag::tensor
          ? tenon::detail::item_bool(*predicate.as<Tensor>(), std::source_location::current())
          : predicate.number().to_bool();
  const Graph& body = *parts.bodies[holds ? 0 : 1];
  std::vector<std::vector<NodeId>> users = body.users();
  std::vector<Tensor> idle;
  for (size_t i = 0; i < std::min(body.inputs().size(), operands.size()); ++i)
    if (needs_grad(operands[i]) && !is_read(body, body.inputs()[i], users))
      idle.push_back(operands[i]);
  return idle;
}

void give_zeros(const CallArgs& call, const std::vector<Tensor>& idle) {
  if (idle.empty()) return;
  auto node = std::make_shared<IdleOperandsNode>();
  std::vector<Tensor> results;
  each_result(call, [&](const Tensor& t, uint32_t) {
    if (t.requires_grad()) results.push_back(t);
  });
  for (const Tensor& t : results) node->pass_on(t);
  for (size_t i = 0; i < results.size(); ++i)
    set_history(results[i], node, static_cast<uint32_t>(i));
  for (const Tensor& t : idle) node->give_zeros(t);
}

// What was recorded behind the call, and a body that asks, takes its results to need gradients where
// either branch, or any iteration, says so.
void give_results_needs(const CallArgs& call, std::string_view name) {
  bool is_short = false;
  each_result(call, [&](const Tensor& t, uint32_t) {
    is_short = is_short || (is_differentiable(t.dtype()) && !t.requires_grad());
  });
  if (!is_short) return;
  std::vector<bool> needs = results_that_need_gradients(call);
  auto node = std::make_shared<NoGradientNode>(std::string(name));
  each_result(call, [&](const Tensor& t, uint32_t i) {
    if (needs[i] && is_differentiable(t.dtype()) && !t.requires_grad())
      set_history(t, node, node->add_input(t));
  });
}

}  // namespace

void run_cond(const CallArgs& call) {
  std::vector<Tensor> idle = idle_operands(call);
  call.op->def->decomp.call(call);
  give_results_needs(call, "CondBackward");
  give_zeros(call, idle);
}

void run_loop(const CallArgs& call) {
  call.op->def->decomp.call(call);
  give_results_needs(call, "LoopBackward");
}

}  // namespace tenon::autograd
