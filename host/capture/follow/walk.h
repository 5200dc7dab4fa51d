// One run of a body along a path: the segments that it has run, and what of it is held beyond it.
//
// Threads: belongs to the thread of the run.
#pragma once

#include "capture/follow/position.h"
#include "capture/follow/reach.h"
#include "capture/trace.h"
#include "core/function_ref.h"

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace tenon {

/// What a walk asks of the code of segments.
struct SegmentCalls {
  /// Code of the segment, or of one like it, that serves these symbols and inputs that overlap so, or
  /// null. It lives until the next is asked for.
  FunctionRef<const SegmentCode*(const Segment&, std::span<const int64_t> symbols,
                                 const std::vector<Overlap>& overlaps)>
      find;
  FunctionRef<void(const SegmentCode&, std::span<detail::TensorHead*> inputs,
                   std::span<const int64_t> symbols, std::span<Tensor> outputs)>
      run;
};

class Walk {
 public:
  /// `version` stays where it is.
  Walk(const detail::Leaves& leaves, const PathVersion& version);
  Walk(const Walk&) = delete;

  Position& at() { return at_; }
  const Position& at() const { return at_; }
  const Path& path() const { return at_.path(); }
  /// Whether gradients were on around the call.
  bool grad() const { return grad_; }
  bool has_pending_steps() const { return at_.next_step() != begun_; }
  /// Whether the next step comes behind a look at data that this run has left out.
  bool leaves_break_out() const {
    return at_.next_step() < path().steps().size() &&
           path().steps()[at_.next_step()].part != n_run_;
  }
  bool may_change_to(const PathVersion& other) const { return at_.may_change_to(other, n_run_); }

  /// Whether a body in one piece ends here with these results, and has left these gradients; null
  /// where it has no tape.
  bool ends_whole(std::span<const Tensor> outputs, const TouchedGradients* gradients);
  /// Whether somebody holds a fake besides the results and `gradients`.
  bool has_escapes(std::span<const Tensor> outputs, const TouchedGradients& gradients) const;
  /// Whether a pending step writes, or draws random numbers.
  bool has_written() const;
  /// Whether a pending step writes memory of a real tensor.
  bool is_to_be_written(const Tensor& real) const;
  /// Whether a pending step takes a tensor over memory that is lent as `lent`, too.
  bool has_used_memory_of(const Tensor& lent) const;

  /// Whether the recorded body looked at this tensor before it did anything else.
  bool looks_next_at(const Tensor& fake) const;
  /// Whether the pending steps are a segment that gives all that the body holds, and has code.
  bool ends_segment(const SegmentCalls& calls);
  void run_segment(const SegmentCalls& calls);
  /// The tensor that a fake stands for; while no step is pending.
  const Tensor& real_of(const Tensor& fake) const;
  /// The same for a result of the body, which lets go of the fake; no step comes after it.
  Tensor take_real(const Tensor& result);
  /// The number in an argument that the recording took for a symbol; nothing for other tensors.
  std::optional<Number> item_of_argument(const Tensor& fake) const;
  /// The value of a tensor that the pending steps make or write; nothing for others.
  std::optional<ValueId> pending_value(const Tensor& t) const;
  /// Where a segment that has run made the tensor: its part, and the value of the part's graph.
  std::optional<std::pair<const Path::Part*, ValueId>> output_of_segment(const Tensor& t) const;
  /// Whether the body holds an object, or has used it since the segment that made it.
  bool is_reachable(uint32_t object) const;
  /// Whether the recording has a hook there, and a hook that is registered now means that place;
  /// `on_node`: one on the node.
  bool expects_hook(ValueId value, bool on_node) const;
  /// Whether the recording has a function there whose forward ends with the last step.
  bool ends_function(const autograd::FunctionTensors& tensors, const autograd::ResultKinds& kinds);
  void add_function(std::shared_ptr<const autograd::WaitingFunction> function);
  /// The fake of a captured tensor that the body has named, or of one that is an argument, too;
  /// undefined for others.
  Tensor fake_of(const Tensor& real) const {
    uint32_t object = object_of(real);
    return object == Path::no_object ? Tensor() : at_.frame().objects[object];
  }
  /// About the pending steps: values are those of the path, nodes are numbers of steps.
  autograd::TapeRequests requests;
  /// What comes when all segments so far have run; null: nothing.
  const Path::Part* next_part() const {
    return n_run_ < path().parts().size() ? &path().parts()[n_run_] : nullptr;
  }
  /// `f(object, fake)` for each fake that somebody holds.
  template <class F>
  void each_held(F f) const;
  /// `f(real)` for each argument and captured tensor that the body has named.
  template <class F>
  void each_named(F f) const {
    for (const Tensor* t : at_.leaves().tensors.span())
      if (t->defined()) f(*t);
    for (const Tensor& t : at_.frame().slots) f(t);
  }
  /// The same without what only the walk holds any more, while no step is pending.
  template <class F>
  void each_reachable_name(F f) const;
  /// These become what they stand for.
  void let_escape(std::span<const uint32_t> objects);

  /// The pending steps become the first ones of a recording, which begins here. Gives where in it
  /// the unit begins that is not over, and has begun with this step.
  OpUnit::Start become_recording(Trace& trace, size_t open_unit);

 private:
  bool gives_what_is_held(const Path::Part& part) const;
  uint32_t object_of(const Tensor& t) const;
  bool has_requests_of(const Path::Part& part) const;
  std::vector<const Tensor*> inputs_of(const Path::Part& part) const;
  bool finds_inputs(const Path::Part& part);
  template <class F>
  void visit_held(uint32_t o, F f) const;

  Position at_;
  mutable Reach reach_;  // remembers what it has looked at
  size_t begun_ = 0;     // the first step of the part in progress
  size_t n_run_ = 0;     // parts that have run
  // Of the pending steps, once they are a segment.
  const SegmentCode* code_ = nullptr;
  detail::LeafArray<detail::TensorHead*, 24> inputs_;
  detail::LeafArray<int64_t, 8> symbols_;
  const bool grad_;  // whether gradients are on around the call
};

/// The requests of a walk, if any, over the values and nodes of a part, which all pending steps are of.
std::optional<autograd::TapeRequests> requests_to(const Path::Part& part, const Walk& walk);

template <class F>
void Walk::each_held(F f) const {
  for (uint32_t o : reach_.objects(n_run_)) visit_held(o, f);
  uint32_t end = n_run_ ? path().parts()[n_run_ - 1].end_object : 0;
  for (uint32_t o : path().argument_objects())
    if (o != Path::no_object && o >= end) visit_held(o, f);
}

template <class F>
void Walk::visit_held(uint32_t o, F f) const {
  const Tensor& t = at_.frame().objects[o];
  int32_t ours = 1 + path().objects()[o].n_arguments;
  if (t.defined() && t.head()->references.load(std::memory_order_relaxed) > ours) f(o, t);
}

template <class F>
void Walk::each_reachable_name(F f) const {
  for (const Tensor* t : at_.leaves().tensors.span())
    if (t->defined()) f(*t);
  for (uint32_t o : reach_.objects(n_run_))
    if (ValueOrigin origin = path().objects()[o].origin; origin.kind == ValueOrigin::Kind::implicit)
      f(at_.frame().slots[origin.index]);
}

/// The objects whose fakes somebody holds besides `results`, once the body is over.
std::vector<uint32_t> kept_beside(const Walk& walk, std::span<const Tensor> results);
/// Whether pending steps give another tensor over the memory of `real` a history.
bool has_history_to_come(const Walk& walk, const Tensor& real);

}  // namespace tenon
