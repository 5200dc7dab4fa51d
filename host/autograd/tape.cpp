// The autograd key.
//
// Problem: calls whose arguments need gradients must run as always and leave a node behind.
// Method: by the plan of the op. With rules: edges and what the rules need are taken from the
// arguments, the call goes on below the key, results get the node. Without rules the decomposition
// runs under the key, so that its parts are recorded. Results of ops that have no gradient need
// none; those of ops of which nothing is known get a node that refuses, so that no gradient is lost
// silently. Views and writes: view.h. Cost: about 170 ns for an op of two arguments.
#include "autograd/tape.h"

#include "autograd/control_flow.h"
#include "autograd/custom_node.h"
#include "autograd/engine.h"
#include "autograd/grad_state.h"
#include "autograd/late_nodes.h"
#include "autograd/row_node.h"
#include "autograd/saved/saved_tensor_hooks.h"
#include "autograd/view.h"
#include "core/arguments.h"
#include "core/device/stream_choice.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/grad_mode.h"
#include "core/sym/sym_int.h"
#include "core/tensor/each_tensor.h"
#include "core/tensor/stand_in.h"
#include "graph/control_flow.h"
#include "graph/record.h"
#include "ops/forms/complex_forms.h"
#include "ops/forms/history.h"
#include "ops/op_kernels.h"
#include "ops/promotion.h"

#include <tenon/plugin.h>

#include <algorithm>

namespace tenon::autograd {

namespace {

class RefusingNode final : public Node {
 public:
  RefusingNode(std::string name, std::string why) : name_(std::move(name)), why_(std::move(why)) {}
  std::string name() const override { return name_; }
  std::vector<Tensor> apply(std::vector<Tensor>) override {
    fail(ErrorCode::unsupported, "{}", why_);
  }

 private:
  std::string name_, why_;
};

bool any_needs_grad(const CallArgs& call) {
  bool needs = false;
  for (uint32_t i = 0; i < call.n_args && !needs; ++i)
    each_tensor(call.args[i], [&](const Tensor& t) { needs = needs || t.requires_grad(); });
  return needs;
}

void run_below(const CallArgs& call) {
  BelowAutograd below;
  dispatch(*call.op, call.args, call.n_args, call.results, call.n_results);
}

// Whether results may be views of the first argument; those that are not share no memory with it. Ops
// that are made of views (narrow, chunk) say so in their schema only.
bool may_give_views(const CallArgs& call) {
  if (call.op->tags & TN_TAG_VIEW) return true;
  if (!call.n_args || call.args[0].tag != Tag::tensor) return false;
  return (call.op->tags & TN_TAG_MAYBE_ALIAS) || gives_only_self(*call.op);
}

// A view that is not recorded and whose tensor needs no gradient may be one of a view that was made
// while gradients were off.
void mark_views(const CallArgs& call, bool recorded) {
  const Tensor& of = *call.args[0].as<Tensor>();
  if (call.op->def->vjp.kind == Vjp::Kind::none) return;  // detach
  track_views(call);
  if (recorded) return;
  each_result(call, [&](const Tensor& view, uint32_t) {
    if (!view.defined() || view.head() == of.head() || !shares_storage(view, of)) return;
    note_view_without_grad(view, of);
  });
}

// Ops that are run as their parts may give views of which the schema says nothing: pixel_shuffle by 1.
bool is_run_as_parts(const OpDef& def) {
  return def.decomp && !def.view && !def.formula && !def.provider && !def.eager.fills &&
         !def.eager.returns && def.vjp.kind != Vjp::Kind::none;
}

template <class F>
void each_tensor_argument(const CallArgs& call, F&& f) {
  for (uint32_t i = 0; i < call.n_args; ++i) each_tensor(call.args[i], f);
}

void mark_views_in_parts(const CallArgs& call) {
  each_result(call, [&](const Tensor& view, uint32_t) {
    if (!view.defined()) return;
    bool is_argument = false;
    each_tensor_argument(
        call, [&](const Tensor& t) { is_argument = is_argument || t.head() == view.head(); });
    if (is_argument) return;
    each_tensor_argument(call, [&](const Tensor& of) {
      if (!of.defined() || !shares_storage(view, of)) return;
      track_view(view, of);
      note_view_without_grad(view, of);
    });
  });
}

void run_unrecorded(const CallArgs& call) {
  run_below(call);
  if (may_give_views(call))
    mark_views(call, false);
  else if (is_run_as_parts(*call.op->def))
    mark_views_in_parts(call);
}

void check_writes(const CallArgs& call) {
  if (forgets_history(*call.op)) return;
  for (uint32_t i = 0; i < call.n_args; ++i) {
    if (!(call.op->mutated_args >> i & 1)) continue;
    each_tensor(call.args[i], [&](const Tensor& t) {
      if (is_differentiable(t.dtype())) check_write(t, call.op->name);
    });
  }
}

bool writes_out_argument(const OpEntry& op) {
  return std::ranges::any_of(op.schema.args,
                             [](const SchemaArg& a) { return a.kwarg_only && a.mutated(); });
}

// The captured tensor that a body has written is asked for the history that its fake has from here on.
void ask_captured(const Tensor& written) {
  const Tensor& base = impl_of(written)->base;
  const Tensor& whole = base.defined() ? base : written;
  if (!thread_modes.tracer || !whole.is_fake() || !object_behind_slot) return;
  if (Tensor real = object_behind_slot(whole); real.defined())
    impl_of(real)->storage_ref->stale_views = true;
}

/// How what a call writes and gives lies in memory.
struct Layout {
  Dims sizes, strides;
  SymInt offset = 0;
};

Layout layout_of_written(const CallArgs& call) {
  if (!call.op->mutated_args || call.op->returned_arg < 0) return {};
  const Tensor& t = *call.args[call.op->returned_arg].as<Tensor>();
  return {dims_of(t.sizes()), dims_of(t.strides()), sym_offset_of(t)};
}

bool is_same(const Layout& a, const Layout& b) {
  return same_sizes(list_of(a.sizes), list_of(b.sizes)) &&
         same_sizes(list_of(a.strides), list_of(b.strides)) && guard_or_false(a.offset == b.offset);
}

// `results`: bit i is set where result i has a gradient.
template <class F>
void each_with_history(const CallArgs& call, uint64_t results, F&& f) {
  bool is_list = call.op->schema.returns_list();
  each_result(call, [&](const Tensor& t, uint32_t input) {
    if (!t.defined() || !is_differentiable(t.dtype())) return;
    if (is_list || (results >> input & 1)) f(t, input);
  });
}

// `is_laid_out_anew`: the call has written no element, as t_.
void attach(const CallArgs& call, const std::shared_ptr<Node>& node,
            uint64_t results = ~uint64_t{0}, bool is_laid_out_anew = false) {
  int written = call.op->mutated_args ? call.op->returned_arg : -1;
  each_with_history(call, results, [&](const Tensor& t, uint32_t input) {
    if (written >= 0 && input == 0) {
      is_laid_out_anew ? relay_history(t, node) : rebase_history(t, node);
      ask_captured(t);
    } else
      set_history(t, node, input);
  });
}

// A gradient that no rule gives would be lost without a word.
void check_differentiable(const CallArgs& call, const VjpPlan& plan) {
  for (uint32_t i = 0; i < call.n_args; ++i) {
    if (plan.differentiable >> i & 1) continue;
    each_tensor(call.args[i], [&](const Tensor& t) {
      require(!is_differentiable(t.dtype()) || !t.requires_grad(), ErrorCode::unsupported,
              "{}: the derivative with respect to argument {} is not implemented; detach it, or "
              "write it as a tenon::autograd::Function",
              call.op->name, call.op->schema.args[i].name);
    });
  }
}

Edges edges_of(const CallArgs& call) {
  Edges edges;
  for (uint32_t i = 0; i < call.n_args; ++i)
    each_tensor(call.args[i], [&](const Tensor& t) { edges.push_back(edge_of(t)); });
  return edges;
}

// A body that was compared with a recording is recorded from this call on: what the node has kept of
// the arguments is as they were before, plain.
void take_symbols(RowNode& node, const CallArgs& call) {
  GraphRecorder& recorder = recorder_of_thread();
  each_result(call, [&](const Tensor& t, uint32_t r) {
    if (r > 0 || !t.defined() || !t.is_fake() || !recorder.owns(t)) return;
    const GraphValue& value = recorder.graph().value(recorder.value_of(t));
    node.take_symbols(recorder.graph(), recorder.graph().node(value.source_index));
  });
}

const OpEntry& row_of(const OpEntry& op) { return op.functional ? *op.functional : op; }

// Of an op that writes arguments which nobody needs a gradient of, and that its node does not keep.
bool writes_aside(const CallArgs& call, const VjpPlan& plan) {
  if (call.op->returned_arg >= 0) return false;
  auto is_written = [&](uint32_t arg) { return call.op->mutated_args >> arg & 1; };
  bool has_history = false;
  for (uint32_t i = 0; i < call.n_args; ++i)
    if (is_written(i))
      each_tensor(call.args[i],
                  [&](const Tensor& t) { has_history = has_history || t.requires_grad(); });
  auto keeps_written = [&](const VjpUse& use) {
    return use.is_of_argument() && !use.is_skipped(call) && is_written(use.index);
  };
  return !has_history && std::ranges::none_of(plan.rules, [&](const VjpPlanRule& rule) {
    return std::ranges::any_of(rule.uses, keeps_written);
  });
}

bool may_get_late_node(const CallArgs& call, const VjpPlan& plan) {
  return late_nodes && thread_modes.follower && !packs_saved_tensors() && !anomaly_mode().enabled &&
         !are_streams_chosen() && (!call.op->mutated_args || writes_aside(call, plan));
}

void record_late(const CallArgs& call, const VjpPlan& plan) {
  const size_t before = late_nodes->n_steps();
  run_below(call);
  if (may_give_views(call)) mark_views(call, true);
  if (!late_nodes || !late_nodes->take(*call.op, plan, before)) {
    record_after(call, plan);
    return;
  }
  each_with_history(call, plan.results, [](const Tensor& t, uint32_t) { mark_late_history(t); });
}

void record_rules(const CallArgs& call, const VjpPlan& plan) {
  if (may_get_late_node(call, plan)) return record_late(call, plan);
  auto node = std::make_shared<RowNode>(row_of(*call.op), plan);
  note_origin(*node, row_of(*call.op).name);
  node->connect(call);
  int written = call.op->mutated_args ? call.op->returned_arg : -1;
  node->save_arguments(call, written);
  bool is_compared = thread_modes.follower;
  const Layout before = layout_of_written(call);
  run_below(call);
  const bool is_laid_out_anew = !is_same(before, layout_of_written(call));
  if (may_give_views(call)) mark_views(call, true);
  node->save_results(call);
  if (is_compared && !thread_modes.follower) take_symbols(*node, call);
  attach(call, node, plan.results, is_laid_out_anew);
}

void record_refusal(const CallArgs& call) {
  Edges edges = edges_of(call);
  run_below(call);
  if (may_give_views(call)) mark_views(call, true);
  auto node = make_refusing_node(
      "NotImplemented",
      message("the derivative of {} is not implemented; detach its arguments, or write it as a "
              "tenon::autograd::Function",
              call.op->name),
      edges);
  node->add_inputs(call);
  attach(call, node);
  refuse_writes(call, edges, Written::all);
}

// The meta function has the checks of a kernel that it makes the results for.
void check_as_kernel(const CallArgs& call) {
  const OpDef& def = *call.op->def;
  if (!def.eager.fills) return;
  Metas metas;
  def.meta.metas(call, metas);
}

void call_parts(const CallArgs& call) {
  if (is_complex_form(call)) return run_complex(call);
  check_as_kernel(call);
  call.op->def->decomp.call(call);
}

// The in-place form of an op that is recorded as its parts: those, then a recorded copy. The parts
// get a copy of self, since their derivatives may read what it was before the write.
void run_parts_in_place(const CallArgs& call) {
  Tensor self = *call.args[0].as<Tensor>(), before = self.clone();
  std::vector<Value> args(call.args, call.args + call.n_args);
  args[0] = Value::of(before);
  Value results[1];
  call_parts({call.op->functional, args.data(), results, call.n_args, 1});
  Tensor result = take<Tensor>(results[0]);
  require(same_sizes(result.sizes(), self.sizes()),
          "{}: the result has shape {}, which does not fit into self of shape {}", call.op->name,
          result.sizes(), self.sizes());
  require(can_cast(result.dtype(), self.dtype()),
          "{}: a result of dtype {} cannot be stored in self of dtype {}", call.op->name,
          result.dtype(), self.dtype());
  call.results[0] = Value::own(self.copy_(result));
}

// Under the key, so that the parts are recorded; they count their own writes.
void run_parts(const CallArgs& call) {
  if (call.op->functional) return run_parts_in_place(call);
  call_parts(call);
  if (call.op->returned_arg < 0 || call.n_results == 0) return;
  drop(call.results[0]);
  call.results[0] = Value::own(*call.args[call.op->returned_arg].as<Tensor>());
}

// Of what writes over a tensor that has a gradient: that of what was there before is zero.
void record_no_gradient(const CallArgs& call) {
  const bool ends = ends_gradient(*call.op) && call.args[0].as<Tensor>()->requires_grad();
  if (!ends) return run_unrecorded(call);
  static constexpr VjpRule rule{"self", "grad", [](const Tensor& g) { return g.zeros_like(); }};
  static const VjpPlan plan{.kind = VjpPlan::Kind::rules,
                            .rules = {{{0}, {{VjpUse::Kind::grad}}, rule.fn.call}},
                            .differentiable = 1,
                            .results = 1};
  record_rules(call, plan);
}

void record_by_plan(const CallArgs& call) {
  if (is_control_flow(*call.op)) return record_control_flow(call);
  if (is_complex_form(call)) return run_parts(call);
  const VjpPlan& plan = vjp_plan(call);
  switch (plan.kind) {
    case VjpPlan::Kind::none:
      return record_no_gradient(call);
    case VjpPlan::Kind::parts:
      return run_parts(call);
    case VjpPlan::Kind::missing:
      return record_refusal(call);
    case VjpPlan::Kind::custom:
      return record_custom(call);
    case VjpPlan::Kind::rules:
      check_differentiable(call, plan);
      return record_rules(call, plan);
  }
}

// What has the history of `t`: a body names the captured tensors that it writes, and their fakes have it.
Tensor with_history(const Tensor& t) {
  Tensor fake = t.defined() && !t.is_fake() ? written_fake_of(t) : Tensor();
  return fake.defined() ? fake : t;
}

bool names_written(const CallArgs& call) {
  bool names = false;
  for (uint32_t i = 0; i < call.n_args && !names; ++i)
    each_tensor(call.args[i],
                [&](const Tensor& t) { names = names || !same_head(with_history(t), t); });
  return names;
}

void record_with_histories(const CallArgs& call) {
  std::vector<Value> args(call.args, call.args + call.n_args);
  ArgumentLists lists;
  map_arguments(args, lists, with_history, keep_numbers);
  record_call({call.op, args.data(), call.results, call.n_args, call.n_results});
}

}  // namespace

void record_call(const CallArgs& call) {
  if (thread_modes.tracer && names_written(call)) return record_with_histories(call);
  if (!gradients_are_on() || !any_needs_grad(call)) {
    if (gradients_are_on() && call.op->mutated_args) check_writes(call);
    return run_unrecorded(call);
  }
  if (call.op->mutated_args) {
    require(!call.op->out_form && !writes_out_argument(*call.op),
            "{}: an `out` form cannot be recorded; use the form that returns its result, or "
            "NoGradGuard",
            call.op->name);
    check_writes(call);
  }
  record_by_plan(call);
}

std::shared_ptr<Node> record_after(const CallArgs& call, const VjpPlan& plan) {
  auto node = std::make_shared<RowNode>(row_of(*call.op), plan);
  node->connect(call);
  node->save_arguments(call, -1);
  node->save_results(call);
  if (!thread_modes.follower) take_symbols(*node, call);
  attach(call, node, plan.results);
  return node;
}

void refuse_writes(const CallArgs& call, const Edges& edges, Written which) {
  for (uint32_t i = 0; i < call.n_args; ++i) {
    const bool is_result = call.n_results && call.op->returned_arg == static_cast<int>(i);
    if (!(call.op->mutated_args >> i & 1) || is_result) continue;
    each_tensor(call.args[i], [&](const Tensor& t) {
      const bool is_meant = which == Written::all || t.requires_grad();
      if (!is_meant || !is_differentiable(t.dtype())) return;
      auto node = make_refusing_node(
          "NotImplemented",
          message("the derivative of what {} writes into its argument {} is not implemented; call "
                  "it under NoGradGuard, or let it give a new tensor",
                  call.op->name, call.op->schema.args[i].name),
          edges);
      node->add_input(t);
      rebase_history(t, node);
    });
  }
}

void (*gradient_touched_slot)(const Tensor&, bool) = nullptr;
void (*requires_grad_slot)(const Tensor&, bool, std::source_location) = nullptr;
void* (*leave_recording_slot)(const char*, std::source_location, std::vector<Tensor>&,
                              std::span<const Tensor>) = nullptr;
void (*resume_recording_slot)(void*) = nullptr;
Tensor (*behind_fake_slot)(const Tensor&) = nullptr;
Tensor (*captured_slot)(const Tensor&) = nullptr;
bool (*is_leaf_slot)(const Tensor&) = nullptr;

std::shared_ptr<Node> make_refusing_node(std::string name, std::string why, Edges edges) {
  auto node = std::make_shared<RefusingNode>(std::move(name), std::move(why));
  node->next = std::move(edges);
  return node;
}

bool hides_edges(const Node& node) {
  return node.next.empty() && dynamic_cast<const RefusingNode*>(&node) != nullptr;
}

}  // namespace tenon::autograd

namespace tenon {

namespace {
const bool installed_tape = (autograd_key_slot = &autograd::record_call, true);
}  // namespace

}  // namespace tenon
