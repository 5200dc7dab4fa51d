// Gradients of leaves, around a recording and as its results.
#include "capture/tape/grad_effects.h"

#include "autograd/engine.h"
#include "autograd/grad_state.h"
#include "autograd/tape.h"
#include "capture/body_scope.h"
#include "capture/errors/error_of_run.h"
#include "capture/follow/follow.h"
#include "capture/tape/run_again.h"
#include "capture/trace.h"
#include "core/error.h"
#include "core/tensor/stand_in.h"
#include "graph/record.h"

#include <algorithm>

namespace tenon {

using autograd::GradState;

bool is_on_own_tape() {
  if (const Follower* follower = Follower::current()) return follower->is_on_tape();
  const Trace* trace = Trace::current();
  return trace && trace->is_on_tape();
}

void forget_tape(Graph& graph) {
  for (ValueId v : graph.inputs()) graph.value(v).flags.requires_grad = false;
  for (NodeId n = 0; n < graph.nodes().size(); ++n) graph.node(n).facts.erase("grad");
}

namespace {

// Its gradient is a value of the recording like any other. What came in stays what it was when it is
// written.
bool is_made_by_body(const Tensor& leaf) {
  const GraphRecorder& recorder = recorder_of_thread();
  if (!leaf.is_fake() || !recorder.owns(leaf)) return false;
  const std::vector<ValueId>& before = recorder.values_before();
  ValueId first = impl_of(leaf)->extra->trace_value;
  while (before[first] != no_value) first = before[first];
  return recorder.graph().value(first).source == ValueSource::node;
}

// Only a write gives the fake of a tensor that was there before a node, which stays with the tensor.
void refuse_histories_of_inputs(const TraceInputs& inputs) {
  for (const auto& [real, fake] : inputs.stand_ins.all())
    require(!fake.is_fake() || !autograd::node_of(fake), ErrorCode::unsupported,
            "a body that calls backward() or requires_grad_() and must be one graph writes a value "
            "that needs a gradient into a tensor of shape {} that it captures or is given, which "
            "would have a history beyond the call; write the value's detach(), call detach_() on "
            "the tensor after backward(), or leave out fullgraph",
            real.sizes());
}

}  // namespace

void TouchedGradients::touch(const Tensor& leaf, bool reads) {
  GradState& state = autograd::ensure_state(leaf);
  add({leaf, state.grad, {}, reads && !state.grad.defined()});
}

void TouchedGradients::touch_early(const Tensor& leaf, const Tensor& real, bool reads) {
  const Tensor& before = autograd::ensure_state(real).grad;
  ChangesOfRun::note([real = Tensor(real), before] { autograd::ensure_state(real).grad = before; });
  add({leaf, before, {}, reads && !before.defined()});
}

// Most runs touch none, and pay for no table.
void TouchedGradients::add(Touched t) {
  if (!leaves_) leaves_ = std::make_unique<decltype(leaves_)::element_type>();
  leaves_->emplace(t.leaf.head(), touched_.size());
  touched_.push_back(std::move(t));
}

void TouchedGradients::note_replaced(const Tensor& leaf, uint32_t n_steps) {
  uint32_t& first = touched_[leaves_->at(leaf.head())].replaced_at;
  first = std::min(first, n_steps);
}

void TouchedGradients::renumber(std::span<const uint32_t> steps) {
  for (Touched& t : touched_)
    if (t.replaced_at != GradEffects::never) t.replaced_at = steps[t.replaced_at];
}

void TouchedGradients::start_tape() {
  for (const Touched& t : touched_) {
    if (!t.leaf.is_fake()) continue;
    Tensor& of_real = autograd::ensure_state(concrete_of(t.leaf)).grad;
    autograd::ensure_state(t.leaf).grad = std::exchange(of_real, t.before);
  }
}

void TouchedGradients::give_back() {
  if (std::exchange(gave_back_, true)) return;
  for (Touched& t : touched_) {
    t.after = std::exchange(autograd::ensure_state(t.leaf).grad, t.before);
    // Of a view, which the body may have let go of.
    if (t.after.defined() && t.after.is_fake()) impl_of(t.after)->base = Tensor();
  }
}

std::vector<bool> TouchedGradients::take_histories(std::span<const Tensor> outputs) {
  refuse_histories_of_inputs(Trace::current()->inputs());
  std::vector<bool> had;
  for (const Tensor& t : outputs) {
    bool is_own_leaf =
        t.defined() && t.requires_grad() && is_made_by_body(t) && !autograd::node_of(t);
    require(!is_own_leaf, ErrorCode::unsupported,
            "a body that calls backward() or requires_grad_() and must be one graph returns a leaf "
            "that it has made; return its detach(), or leave out fullgraph");
    bool is_of_body = t.defined() && t.is_fake();
    had.push_back(is_of_body && t.requires_grad() && autograd::node_of(t));
    if (is_of_body) impl_of(t)->base = Tensor();  // which the body may have let go of
    if (!had.back()) continue;
    autograd::state_of(t)->node = nullptr;
    mark_requires_grad(t, false);
  }
  return had;
}

void TouchedGradients::end_tape(std::span<const Tensor> fakes) {
  for (const Tensor& fake : fakes)
    if (GradState* state = autograd::state_of(fake)) state->node = nullptr;
}

const Tensor& TouchedGradients::left_in(const Touched& t) const {
  return gave_back_ ? t.after : autograd::ensure_state(t.leaf).grad;
}

bool TouchedGradients::is_changed(const Touched& t) const {
  const Tensor& after = left_in(t);
  return after.defined() ? !t.before.defined() || !same_head(after, t.before)
                         : t.before.defined() || !t.found_without;
}

void TouchedGradients::leave_computed() const {
  PauseRecording pause;
  for (const Touched& t : touched_) {
    const Tensor& leaf = t.leaf.is_fake() ? concrete_of(t.leaf) : t.leaf;
    if (!is_changed(t) || !leaf.defined()) continue;
    Tensor left = left_in(t);
    if (left.defined() && left.is_fake()) left = concrete_of(left);
    if (left.defined() == left_in(t).defined()) leaf.set_grad(left);
  }
}

void TouchedGradients::finish(GradEffects& effects,
                              FunctionRef<ValueOrigin(const Tensor&)> leaf_origin,
                              FunctionRef<ValueOrigin(const Tensor&)> gradient_origin) const {
  for (const Touched& t : touched_) {
    if (!t.found_without && !is_changed(t)) continue;
    ValueOrigin leaf = leaf_origin(t.leaf);
    if (t.found_without) effects.without_grad.push_back(leaf);
    if (is_changed(t)) effects.left.push_back({leaf, gradient_origin(t.after), t.replaced_at});
  }
}

// Captured tensors are asked for in the order in which finish() has met them.
bool TouchedGradients::are_as_recorded(
    const GradEffects& effects, FunctionRef<bool(const ValueOrigin&, const Tensor&)> is) const {
  size_t n_without = 0, n_left = 0;
  for (const Touched& t : touched_) {
    if (t.found_without) {
      if (n_without == effects.without_grad.size()) return false;
      if (!is(effects.without_grad[n_without++], t.leaf)) return false;
    }
    if (!is_changed(t)) continue;
    if (n_left == effects.left.size()) return false;
    const GradEffects::Left& left = effects.left[n_left++];
    if (!is(left.leaf, t.leaf) || !is(left.gradient, left_in(t))) return false;
  }
  return n_without == effects.without_grad.size() && n_left == effects.left.size();
}

int32_t TouchedGradients::references(const Tensor& fake) const {
  int32_t n = 0;
  for (const Touched& t : touched_) n += same_head(t.after, fake) + same_head(t.leaf, fake);
  return n;
}

namespace {

bool follows_on_tape() {
  const Follower* follower = Follower::current();
  return follower && follower->is_on_tape();
}

// The body meets a captured tensor as it is then.
bool is_yet_to_be_met(const Tensor& t) {
  const Follower* follower = Follower::current();
  return follower && !t.is_fake() && !follower->walk().fake_of(t).defined();
}

// A tensor that the body has not met is about to need a gradient, or none.
void note_need(const Tensor& t) {
  ChangesOfRun::note([t = Tensor(t), before = t.requires_grad()] { t.requires_grad_(before); });
}

// A view that was made before its base was written asks the base what it needs. Those of `real`, which
// needs a gradient from here on, or none.
void renew_needs_of_views(Trace& trace, const Tensor& real, bool value) {
  std::vector<Tensor> fakes = trace.held_fakes();
  PauseRecording as_they_are;
  real.requires_grad_(value);
  for (const Tensor& fake : fakes)
    if (const Tensor& behind = concrete_of(fake); behind.defined() && shares_storage(behind, real))
      mark_requires_grad(fake, behind.requires_grad());
}

bool may_cut_body() {
  if (const Follower* follower = Follower::current()) return !follower->is_one_graph();
  const Trace* trace = Trace::current();
  return trace && !trace->fullgraph && !trace->is_on_tape();
}

// As uncompiled code of the body would.
void change_need_between_segments(const Tensor& fake, bool value, std::source_location where) {
  BodyScope::check_for_tape("requires_grad_() begins a history");
  std::vector<Tensor> real{fake};
  void* token = detail::enter_disabled(real, "requires_grad_()", where);
  real[0].requires_grad_(value);
  detail::leave_disabled(token);
}

// A body that is followed reads what is there; what it leaves goes there when its code has run.
void touch_followed(Follower& follower, const Tensor& leaf, bool reads) {
  TouchedGradients& gradients = follower.gradients();
  if (!follower.is_one_graph() || gradients.has_touched(leaf)) return;
  const Tensor& real = leaf.is_fake() ? follower.walk().real_of(leaf) : leaf;
  if (!real.defined()) return;
  if (!follower.is_on_tape()) return gradients.touch_early(leaf, real, reads);
  if (leaf.is_fake()) autograd::ensure_state(leaf).grad = autograd::ensure_state(real).grad;
  gradients.touch(leaf, reads);
}

// The code, which comes later, may fail behind that.
void note_replaced(TouchedGradients& gradients, const Tensor& leaf, size_t n_steps) {
  if (gradients.has_touched(leaf)) gradients.note_replaced(leaf, static_cast<uint32_t>(n_steps));
}

// There may be a tape later.
void touch_early(Trace& trace, const Tensor& leaf, bool reads) {
  bool may_start_tape = trace.fullgraph && !trace.leaves_body_out;
  if (!may_start_tape || trace.early_gradients().has_touched(leaf) || is_made_by_body(leaf)) return;
  const Tensor& real = leaf.is_fake() ? concrete_of(leaf) : leaf;
  if (real.defined()) trace.early_gradients().touch_early(leaf, real, reads);
}

void touch_recorded(Trace& trace, const Tensor& leaf, bool reads) {
  if (!trace.is_on_tape()) return touch_early(trace, leaf, reads);
  if (trace.gradients().has_touched(leaf) || is_made_by_body(leaf)) return;
  Tensor& gradient = autograd::ensure_state(leaf).grad;
  // That of an argument, whose fake has none yet.
  const Tensor& real = leaf.is_fake() ? concrete_of(leaf) : leaf;
  if (leaf.is_fake() && real.defined()) gradient = autograd::ensure_state(real).grad;
  trace.gradients().touch(leaf, reads);
  // Who follows the body is given it by the body.
  if (reads && gradient.defined() && trace.leaves_body_out)
    trace.inputs().lift_gradient(leaf, gradient);
}

// A recording of a body that must be one graph is on a tape of its own where it asks for gradients.
bool goes_on_tape() {
  if (is_on_own_tape()) return true;
  const Follower* follower = Follower::current();
  if (follower && !follower->is_one_graph()) return false;
  Trace* trace = Trace::current();
  if (!trace || !trace->fullgraph) return false;
  start_tape(*trace);
  return true;
}

// Code that computes more than one of them knows a gradient of each, as if there were a hook.
void mark_sought(const char* what, std::span<const Tensor> sought) {
  auto nothing = [](const Tensor&) { return autograd::HookHandle(); };
  for (const Tensor& t : sought) {
    bool is_result = t.defined() && t.is_fake() && t.requires_grad() && !t.is_leaf();
    if (is_result) static_cast<void>(autograd::hook_slot(t, {what, true, nothing}));
  }
}

Tensor captured_in_walk(const Walk& walk, const Tensor& fake) {
  const TensorExtra* extra = impl_of(fake)->extra.get();
  if (!extra || extra->trace_id != walk.at().frame().id) return {};
  const Path::Object& object = walk.path().objects()[walk.path().object_of(extra->trace_value)];
  return object.origin.kind == ValueOrigin::Kind::implicit ? walk.real_of(fake) : Tensor();
}

Tensor captured_in_trace(const TraceInputs& inputs, const Tensor& fake) {
  const ValueOrigin* origin = inputs.known_origin(fake);
  bool is_captured = origin && origin->kind == ValueOrigin::Kind::implicit;
  return is_captured ? inputs.stand_ins.real_of(fake) : Tensor();
}

const bool installed_grad_effects = [] {
  autograd::gradient_touched_slot = [](const Tensor& leaf, bool reads) {
    Follower* follower = Follower::current();
    Trace* trace = follower ? nullptr : Trace::current();
    if (follower) touch_followed(*follower, leaf, reads);
    if (trace) touch_recorded(*trace, leaf, reads);
    if (reads) return;
    if (follower) note_replaced(follower->gradients(), leaf, follower->walk().at().next_step());
    if (trace) note_replaced(trace->gradients_so_far(), leaf, trace->n_steps());
  };
  autograd::requires_grad_slot = [](const Tensor& t, bool value, std::source_location where) {
    if (is_yet_to_be_met(t)) return note_need(t);
    if (follows_on_tape()) return Follower::current()->change_need_on_tape(t, value);
    if (t.is_fake() && may_cut_body()) return change_need_between_segments(t, value, where);
    if (Follower* follower = t.is_fake() ? nullptr : Follower::current())
      if (!follower->is_one_graph() && follower->changes_need(t, value)) return;
    Trace* trace = Trace::current();
    if (!trace) return;
    if (!t.is_fake() && !trace->inputs().stand_ins.fake_of(t).defined()) return note_need(t);
    trace->note_changed_need();
    BodyScope::check_for_tape("requires_grad_() begins a history");
    if (!trace->is_on_tape() && trace->fullgraph) start_tape(*trace);
    if (!trace->is_on_tape()) begin_segment(*trace, "requires_grad_()", where);
    const Tensor real = t.is_fake() ? concrete_of(t) : t;
    if (!t.is_fake()) set_need(trace->inputs(), t, value);
    if (!real.defined()) return;
    if (t.is_fake()) real.requires_grad_(value);
    if (!trace->is_on_tape()) renew_needs_of_views(*trace, real, value);
  };
  autograd::leave_recording_slot = [](const char* what, std::source_location where,
                                      std::vector<Tensor>& tensors,
                                      std::span<const Tensor> sought) -> void* {
    if (goes_on_tape()) {
      refuse_unless(
          !autograd::anomaly_mode().enabled, ErrorCode::unsupported,
          "{} in a body that must be one graph: a DetectAnomalyGuard looks at each gradient, "
          "which has no data there; leave out fullgraph",
          what);
      return nullptr;
    }
    mark_sought(what, sought);
    Follower* follower = Follower::current();
    if (!follower || !follower->passes_break()) {
      Trace* trace = Trace::current();
      require(trace != nullptr, ErrorCode::unsupported,
              "{}: not supported while a graph tracer records", what);
      if (!sought.empty()) trace->note_sought();
    }
    return detail::enter_disabled(tensors, what, where);
  };
  autograd::resume_recording_slot = detail::leave_disabled;
  object_behind_slot = [](const Tensor& fake) -> Tensor {
    if (!impl_of(fake)->extra) return Tensor();  // of no recording
    if (const Follower* follower = Follower::current()) return follower->walk().real_of(fake);
    return Trace::current() ? concrete_of(fake) : Tensor();
  };
  object_asked_slot = [] {
    Trace* trace = Follower::current() ? nullptr : Trace::current();
    if (trace && trace->leaves_body_out && !trace->is_on_tape())
      trace->graph_break("is_same() of an argument and another tensor");
  };
  autograd::behind_fake_slot = [](const Tensor& fake) -> Tensor {
    return is_on_own_tape() ? Tensor() : object_behind_slot(fake);
  };
  autograd::captured_slot = [](const Tensor& fake) -> Tensor {
    if (!is_on_own_tape()) return Tensor();
    const Follower* follower = Follower::current();
    return follower ? captured_in_walk(follower->walk(), fake)
                    : captured_in_trace(Trace::current()->inputs(), fake);
  };
  return true;
}();

}  // namespace

}  // namespace tenon
