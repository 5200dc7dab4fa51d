// Which results of an operation need gradients, those of control flow by its bodies, as the tape would
// have it.
#include "core/arguments.h"
#include "core/grad_mode.h"
#include "core/tensor/each_tensor.h"
#include "core/tensor/tensor_impl.h"
#include "graph/control_flow.h"
#include "graph/passes/aliasing.h"
#include "graph/passes/needs_of_parts.h"
#include "graph/passes/view_root.h"
#include "graph/record.h"
#include "ops/forms/history.h"

#include <algorithm>
#include <deque>

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
    std::optional<NeedsOfParts> parts;
    if (has_needs_of_parts(op)) {
      if (!op.mutated_args && all_needed_before(node)) return mark_results(node);
      parts = ask_parts(node, op);
    }
    for (uint32_t r = 0; r < node.n_results; ++r)
      if (parts ? parts->results[r]
                : result_needs_gradient(op, node.args, r, node.n_results, needs_one))
        mark(node.first_result + r);
    for (size_t i = 0; i < node.args.size(); ++i)
      if (parts ? parts->written[i] : writes_history(op, i))
        for_each_value(node.args[i], [&](ValueId v) { mark_written(v, node.first_result); });
  }

  // When the body was recorded all results needed a gradient, and now no fewer arguments do. The tape
  // looks at each call, and parts take a while.
  bool all_needed_before(const Node& node) const {
    auto needed = [&](ValueId v) { return body_.value(v).flags.requires_grad; };
    bool all = true;
    for (const Value& argument : node.args)
      for_each_value(argument, [&](ValueId v) { all = all && (needs_[v] || !needed(v)); });
    for (uint32_t r = 0; r < node.n_results; ++r)
      all = all && (needed(node.first_result + r) || !may_need(node.first_result + r));
    return all;
  }

  std::optional<NeedsOfParts> ask_parts(const Node& node, const OpEntry& op) const {
    std::vector<Value> args(node.args.begin(), node.args.end());
    std::deque<Tensor> tensors;
    ArgumentLists lists;
    auto fake = [&](ValueId v) {
      const GraphValue& value = body_.value(v);
      if (value.kind != ValueKind::tensor)
        return value.kind == ValueKind::none ? Value{} : Value::of(value.scalar);
      Tensor& made = tensors.emplace_back(make_fake(value.meta, value.offset));
      mark_requires_grad(made, needs_[v]);
      return Value::of(made);
    };
    map_arguments(args, lists, fake, keep_numbers);
    return needs_of_parts(op, args, node.n_results, body_.shape_env.get());
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

  bool may_need(ValueId v) const {
    const GraphValue& value = body_.value(v);
    return value.kind == ValueKind::tensor && is_differentiable(value.meta.dtype);
  }
  void mark(ValueId v) {
    if (may_need(v)) needs_[v] = true;
  }
  void mark_results(const Node& node) {
    for (uint32_t r = 0; r < node.n_results; ++r) mark(node.first_result + r);
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
  uint32_t n_results = 0;
  each_result(call, [&](const Tensor&, uint32_t) { ++n_results; });
  std::optional<NeedsOfParts> parts;
  if (has_needs_of_parts(*call.op))
    parts = needs_of_parts(*call.op, fake_args, n_results, recorder.shape_env().get());
  for (size_t i = 0; i < fake_args.size(); ++i)
    if (parts ? parts->written[i] : writes_history(*call.op, i))
      each_tensor(fake_args[i], [&](const Tensor& written) {
        bool is_first = !written.requires_grad();
        mark(written);
        if (is_first) mark_relatives(recorder, written);
      });
  each_result(call, [&](const Tensor& t, uint32_t r) {
    if (parts ? parts->results[r]
              : result_needs_gradient(*call.op, fake_args, r, n_results, needs_one))
      mark(t);
  });
}

}  // namespace tenon
