// Which results of an operation need gradients, those of control flow by its bodies, as the tape would
// have it.
#include "core/grad_mode.h"
#include "core/tensor/each_tensor.h"
#include "core/tensor/tensor_impl.h"
#include "graph/control_flow.h"
#include "graph/passes/aliasing.h"
#include "graph/passes/view_root.h"
#include "graph/record.h"
#include "ops/forms/history.h"

#include <algorithm>

namespace tenon {

namespace {

using Needs = std::vector<bool>;

Needs needs_of_results(ControlFlow kind, std::span<const Graph* const> bodies,
                       const std::vector<Needs>& operands);

/// One walk over a body: which of its values need a gradient.
class BodyNeeds {
 public:
  BodyNeeds(const Graph& body, const Needs& inputs)
      : body_(body), classes_(body), needs_(body.values().size()) {
    for (size_t i = 0; i < std::min(inputs.size(), body.inputs().size()); ++i)
      needs_[body.inputs()[i]] = inputs[i];
    for (const Node& node : body.nodes()) visit(node);
  }

  Needs outputs() const {
    Needs out;
    for (ValueId v : body_.outputs()) out.push_back(v != no_value && needs_[v]);
    return out;
  }

 private:
  void visit(const Node& node) {
    const OpEntry& op = entry_of(node.op);
    auto mode = node.facts.find("grad");
    bool is_off = mode != node.facts.end() && mode->second == "off";
    auto needs_one = [&](const Value& argument) {
      bool any = false;
      for_each_value(argument, [&](ValueId v) { any = any || needs_[v]; });
      return any;
    };
    if (is_off || !results_need_gradient(op, node.args, needs_one)) return;
    if (ControlFlow kind = control_flow_of(op); kind != ControlFlow::none)
      return visit_control_flow(node, op, kind);
    for (uint32_t r = 0; r < node.n_results; ++r)
      if (result_needs_gradient(op, node.args, r, node.n_results, needs_one))
        mark(node.first_result + r);
    for (size_t i = 0; i < node.args.size(); ++i)
      if (writes_history(op, i))
        for_each_value(node.args[i], [&](ValueId v) { mark_written(v, node.first_result); });
  }

  void visit_control_flow(const Node& node, const OpEntry& op, ControlFlow kind) {
    std::vector<const Graph*> bodies;
    std::vector<Needs> operands;
    for (size_t i = 0; i < node.args.size(); ++i) {
      if (node.args[i].tag == Tag::graph) bodies.push_back(node.args[i].as<Graph>());
      if (!op.schema.args[i].type.is_list) continue;
      operands.emplace_back();
      for_each_value(node.args[i], [&](ValueId v) { operands.back().push_back(needs_[v]); });
    }
    Needs results = needs_of_results(kind, bodies, operands);
    for (uint32_t r = 0; r < node.n_results; ++r)
      if (results[r]) mark(node.first_result + r);
  }

  void mark(ValueId v) {
    const GraphValue& value = body_.value(v);
    if (value.kind == ValueKind::tensor && is_differentiable(value.meta.dtype)) needs_[v] = true;
  }

  // What is written through a view is written in the tensor that it shows.
  void mark_written(ValueId written, ValueId n_before) {
    for (ValueId v = 0; v < n_before; ++v)
      if (classes_.of(v) == classes_.of(written)) mark(v);
  }

  const Graph& body_;
  AliasClasses classes_;
  Needs needs_;
};

// Element by element; the first of `a` are those of `b`. Whether that changes `a`.
bool unite(Needs& a, const Needs& b, size_t n) {
  Needs before = a;
  for (size_t i = 0; i < std::min({n, a.size(), b.size()}); ++i) a[i] = a[i] || b[i];
  return a != before;
}

Needs joined(const std::vector<Needs>& lists) {
  Needs out;
  for (const Needs& list : lists) out.insert(out.end(), list.begin(), list.end());
  return out;
}

Needs needs_of_results(ControlFlow kind, std::span<const Graph* const> bodies,
                       const std::vector<Needs>& operands) {
  Needs inputs = joined(operands);
  size_t n_first = operands[0].size();
  if (kind == ControlFlow::associative_scan)  // left and right
    inputs.insert(inputs.begin(), operands[0].begin(), operands[0].end());
  const Graph& body = *bodies[kind == ControlFlow::while_loop ? 1 : 0];
  Needs results = BodyNeeds(body, inputs).outputs();
  if (kind == ControlFlow::cond) {
    unite(results, BodyNeeds(*bodies[1], inputs).outputs(), results.size());
    return results;
  }
  if (kind == ControlFlow::map) return results;
  // What one iteration gives the next, and the first one may be the last.
  while (unite(inputs, results, n_first)) results = BodyNeeds(body, inputs).outputs();
  unite(results, inputs, n_first);
  return results;
}

}  // namespace

std::vector<bool> results_that_need_gradients(const CallArgs& call) {
  ControlCall parts = control_call(*call.op, call.args, call.n_args);
  std::vector<Needs> operands;
  for (const std::vector<Tensor>& list : parts.operands) {
    operands.emplace_back();
    for (const Tensor& t : list) operands.back().push_back(t.requires_grad());
  }
  return needs_of_results(parts.kind, parts.bodies, operands);
}

void mark_relatives(GraphRecorder& recorder, const Tensor& given) {
  auto root_of = [&](const Tensor& t) { return view_root(recorder, recorder.value_of(t)).value; };
  const ValueId root = root_of(given);
  for (const Tensor& t : recorder.live_fakes())
    if (shares_storage(t, given) && is_differentiable(t.dtype()) && root_of(t) == root)
      mark_requires_grad(t, true);
}

void pass_requires_grad(GraphRecorder& recorder, const CallArgs& call,
                        std::span<const Value> fake_args) {
  auto needs_one = [](const Value& argument) {
    bool any = false;
    each_tensor(argument, [&](const Tensor& t) { any = any || t.requires_grad(); });
    return any;
  };
  if (!gradients_are_on() || !results_need_gradient(*call.op, fake_args, needs_one)) return;
  auto mark = [](const Tensor& t) {
    if (t.defined() && is_differentiable(t.dtype())) mark_requires_grad(t, true);
  };
  if (is_control_flow(*call.op)) {
    std::vector<bool> needs =
        results_that_need_gradients({call.op, fake_args.data(), call.results, call.n_args, 1});
    return each_result(call, [&](const Tensor& t, uint32_t r) {
      if (needs[r]) mark(t);
    });
  }
  for (size_t i = 0; i < fake_args.size(); ++i)
    if (writes_history(*call.op, i))
      each_tensor(fake_args[i], [&](const Tensor& written) {
        bool is_first = !written.requires_grad();
        mark(written);
        if (is_first) mark_relatives(recorder, written);
      });
  uint32_t n_results = 0;
  each_result(call, [&](const Tensor&, uint32_t) { ++n_results; });
  each_result(call, [&](const Tensor& t, uint32_t r) {
    if (result_needs_gradient(*call.op, fake_args, r, n_results, needs_one)) mark(t);
  });
}

}  // namespace tenon
