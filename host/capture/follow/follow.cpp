// Following: runs of bodies along paths, and turning into recordings.
#include "capture/follow/follow.h"

#include "autograd/grad_state.h"
#include "autograd/saved/saved_tensor_hooks.h"
#include "capture/errors/error_of_run.h"
#include "capture/follow/memory_of_run.h"
#include "capture/follow/record_steps.h"
#include "capture/lazy_numbers.h"
#include "capture/outside.h"
#include "capture/tape/hooks.h"
#include "capture/tape/run_again.h"
#include "capture/tape/views_outside.h"
#include "core/arguments.h"
#include "core/dispatch.h"
#include "core/grad_mode.h"
#include "core/tensor/each_tensor.h"
#include "core/tensor/owner_thread.h"
#include "graph/record.h"
#include "ops/custom_op.h"
#include "ops/decompose.h"
#include "ops/forms/complex_forms.h"
#include "ops/forms/history.h"
#include "ops/modes/autocast.h"
#include "ops/op_kernels.h"

#include <tenon/autograd.h>

namespace tenon {

/// This thread's ops go to a follower for as long as it lives.
struct Follower::Running {
  ModeScope keys{bit(Key::trace), bit(Key::autograd)};
  void* tracer = std::exchange(thread_modes.tracer, nullptr);
  uint64_t outside = std::exchange(thread_modes.excluded_outside, keys.excluded_before());
  autograd::LateNodes* late_nodes = std::exchange(autograd::late_nodes, nullptr);
  Follower& follower;
  explicit Running(Follower& f) : follower(f) {
    if (f.is_on_tape()) thread_modes.exclude &= ~bit(Key::autograd);
    thread_modes.follower = thread_modes.tracer = &f;
    ++n_bodies_along_paths;
    if (f.is_on_tape()) f.late_tape_.begin();
  }
  ~Running() {
    --n_bodies_along_paths;
    follower.late_tape_.end();
    autograd::late_nodes = late_nodes;
    thread_modes.follower = nullptr;
    thread_modes.tracer = tracer;
    thread_modes.excluded_outside = outside;
    if (follower.is_on_tape() && !follower.trace_) follower.leave_tape();
  }
};

// Also where what was pending fails while the body's own error is on its way.
struct Follower::EndsTrace {
  std::unique_ptr<TraceScope>& scope;
  ~EndsTrace() { scope.reset(); }
};

Follower::Follower(const detail::Leaves& leaves, const PathVersion& first, const Helpers& helpers)
    : helpers_(helpers), first_(first), walk_(leaves, first_), leaves_(leaves) {}

Follower::~Follower() = default;

Follower* Follower::current() { return static_cast<Follower*>(thread_modes.follower); }

void Follower::run(const detail::Body& body) {
  ChangesOfRun changes;
  ErrorOfRun error;
  body_ = &body;
  Running running(*this);
  EndsTrace with_the_run{trace_scope_};
  LazyNumbersOfBody numbers;
  try {
    error.run_to_end(results_.tensors, [&] {
      CastsOfBody casts;
      body.run(body.context, walk_.at().frame().arguments.data(), leaves_.numbers.data(),
               results_.tensors, results_.plain);
    });
    if (!trace_) finish();
    leave_needs();
    if (trace_) recording_ = std::make_unique<Recording>(trace_->finish(results_));
  } catch (const WantsTape&) {
    trace_scope_.reset();
    changes.undo();
    throw;
  } catch (...) {
    late_tape_.make();
    hide_refusal(changes, [&] {
      bool is_hidden = has_done_nothing();
      if (is_hidden) trace_scope_.reset();
      return is_hidden;
    });
    // What the body has done by now is done.
    if (!trace_ && ((is_on_tape() && gradients_.has_any()) || walk_.has_written() ||
                    walk_.has_escapes(results_.tensors, gradients_)))
      stop_following();
    if (trace_) trace_->failed();
    trace_scope_.reset();
    rethrow_unhidden();
  }
  trace_scope_.reset();
}

// Whether the body may run once more.
bool Follower::has_done_nothing() {
  if (has_passed_break_) return false;
  return trace_ ? tenon::has_done_nothing(*trace_, results_.tensors)
                : !walk_.has_escapes(results_.tensors, gradients_);
}

bool Follower::takes(const CallArgs& call) {
  if (ErrorOfRun::runs_at_once()) return run_at_once(call), true;
  if (holds_lazy_numbers()) {
    keep_lazy_numbers(call);
    if (thread_modes.follower != this) return false;  // their copies were the first difference
  }
  if (has_unsettled_needs_) [[unlikely]]
    settle_needs();
  if (is_off_path_) return false;
  // An assertion is no step of a path: the numbers of this run answer it.
  if (call.op->id == OpId::aten__assert_scalar_default) return run_meta(call), true;
  // What runs as it is is no step, even if it is the same operation.
  auto fits = [&] {
    return !is_uncompiled() && !walk_.leaves_break_out() && walk_.at().fits_step(call);
  };
  if (fits()) return take(call), true;
  if (runs_outside(call)) return true;
  const OpEntry& op = *call.op;
  bool taken_apart = (is_complex_form(call) && !op.functional) ||
                     (op.schema.is_for_parts() && can_decompose(op)) || is_traced_through(op);
  if (taken_apart) return decompose(call), true;
  if (changes_path(fits)) return take(call), true;
  difference_ = walk_.leaves_break_out() ? message("it does not look at data after {} operations",
                                                   walk_.at().next_step())
                                         : walk_.at().difference(call);
  return false;
}

bool Follower::runs_outside(const CallArgs& call) {
  if (is_one_graph() || !runs_between_segments(call)) return false;
  {
    RecordingItself ends_the_segment;
    if (!passes_break()) return false;
  }
  std::vector<Value> args(call.args, call.args + call.n_args);
  ArgumentLists lists;
  map_arguments(
      args, lists, [this](const Tensor& t) { return Tensor(t.is_fake() ? walk_.real_of(t) : t); },
      keep_numbers);
  OutsideOfBody outside(autograd::packs_saved_tensors());
  dispatch(*call.op, args.data(), call.n_args, call.results, call.n_results);
  return true;
}

// What is a view of a captured tensor is one of its fake, which a write gives the history.
static void track_views_of_fakes(const Walk& walk, const CallArgs& call) {
  bool of_a_tensor = call.n_args && call.args[0].tag == Tag::tensor;
  bool of_captured = of_a_tensor && !call.args[0].as<Tensor>()->is_fake();
  Tensor fake = of_captured ? walk.fake_of(*call.args[0].as<Tensor>()) : Tensor();
  if (!fake.defined()) return track_views(call);
  std::vector<Value> args(call.args, call.args + call.n_args);
  args[0] = Value::of(fake);
  track_views({call.op, args.data(), call.results, call.n_args, call.n_results});
}

// The tape asks what is a view of what, and whether it was written: fakes know, of captured tensors, too,
// which are written once the code has run.
void Follower::answer(const CallArgs& call) {
  if (call.op->mutated_args) check_writes(walk_.at(), walk_.at().next_step() + 1);
  if ((call.op->mutated_args || forgets_history(*call.op)) && late_tape_.is_written_by(call))
    late_tape_.make();
  walk_.at().give_results(call);
  if (!is_on_tape()) return;
  if (forgets_history(*call.op)) return forget_history(*call.args[0].as<Tensor>());
  track_views_of_fakes(walk_, call);
  uint64_t written = written_args(call);
  for (uint32_t i = 0; written && i < call.n_args; ++i)
    if (written >> i & 1)
      each_tensor(call.args[i], [&](const Tensor& t) {
        if (Tensor fake = t.is_fake() ? t : walk_.fake_of(t); fake.defined()) bump_version(fake);
        if (!t.is_fake()) count_write(t);
      });
}

// What lies in memory that the program may write is read and written before the program goes on.
void Follower::take(const CallArgs& call) {
  answer(call);
  if (host_writes.are_none()) return;
  auto real_of = [this](const Tensor& fake) -> const Tensor& { return walk_.real_of(fake); };
  if (!host_writes.touches(call, real_of)) return;
  RecordingItself ends_the_segment;
  if (passes_break()) return;
  stop_following();
  trace_->graph_break(message("{} is on memory that the program may write", call.op->name));
}

// What has to be looked at for each operation is left to them, and other paths where a unit has no
// facts: it is short.
bool Follower::takes_unit(OpUnit& unit) {
  if (thread_modes.follower != this || ErrorOfRun::runs_at_once()) return false;
  settle_needs();
  auto is_written_late = [&] {
    return late_tape_.is_written_by(*walk_.path().unit_at(walk_.at().next_step()));
  };
  auto fits = [&] {
    return !walk_.leaves_break_out() && walk_.at().fits_unit(unit) &&
           !(late_tape_.is_in_pass() && is_written_late());
  };
  if (is_off_path_ || holds_lazy_numbers() || !host_writes.are_none() ||
      (!fits() && (unit.facts().empty() || late_tape_.is_in_pass() || !changes_path(fits)))) {
    open_unit_ = &unit;
    open_unit_step_ = walk_.at().next_step();
    return false;
  }
  if (!walk_.path().written_inputs().empty())
    check_writes(walk_.at(), walk_.path().unit_at(walk_.at().next_step())->end_step);
  if (is_written_late()) late_tape_.make();
  const Path::Unit& recorded = *walk_.path().unit_at(walk_.at().next_step());
  walk_.at().pass_unit(unit);
  for (const Path::Unit::Write& write : recorded.writes) {
    const ValueOrigin& origin = walk_.path().objects()[write.object].origin;
    if (is_on_tape() && write.is_new && origin.kind == ValueOrigin::Kind::implicit)
      count_write(walk_.at().frame().slots[origin.index]);
  }
  return true;
}

namespace {

// As far as the recording knows more than symbols.
bool lies_as(const Tensor& fake, const TensorMeta& recorded) {
  const detail::TensorHead* head = fake.head();
  auto same = [&](const Dims& known, const int64_t* found) {
    for (size_t d = 0; d < known.size(); ++d)
      if (!known[d].is_symbolic() && known[d].word() != found[d]) return false;
    return true;
  };
  return fake.dim() == static_cast<int64_t>(recorded.sizes.size()) &&
         same(recorded.sizes, head->sizes) && same(recorded.strides, head->strides);
}

// Whether what the next segment reads lies and needs gradients as in the recording. Where the segment
// has begun and written it, nobody knows any more.
bool finds_recorded_tensors(const Walk& walk) {
  const Path::Part* part = walk.next_part();
  if (!part) return true;
  for (size_t i = 0; i < part->inputs.size(); ++i) {
    if (part->inputs[i] == Path::no_object) continue;
    const Tensor& fake = walk.at().frame().objects[part->inputs[i]];
    if (!fake.defined()) continue;
    ValueId input = part->graph->inputs()[i];
    const GraphValue& recorded = part->graph->value(input);
    bool is_written = impl_of(fake)->extra->trace_value != walk.path().number_of(*part, input);
    // As it is: the body may have yet to name it.
    bool needs_grad = has_need(fake);
    if (is_written || !lies_as(fake, recorded.meta) || needs_grad != recorded.flags.requires_grad)
      return false;
  }
  return true;
}

}  // namespace

// A path that has the same steps so far and goes on as `fits` asks takes over.
bool Follower::changes_path(FunctionRef<bool()> fits) {
  late_tape_.make();
  if (!asked_for_others_) {
    ModesOf around_the_call(helpers_.modes);
    GradientsAsRecorded grad(walk_.grad());
    asked_for_others_ = true;
    others_ = helpers_.others();
  }
  const Path& left = walk_.path();
  auto takes_over = [&](const PathVersion& other) {
    if (other.path == &walk_.path() || !walk_.may_change_to(other)) return false;
    walk_.at().change_to(other);
    if (walk_.at().frame().is_spoiled && !finds_recorded_tensors(walk_)) return false;
    if (!fits()) return false;
    left.note_successor(*other.path);
    return true;
  };
  auto likely = std::ranges::find_if(
      others_, [&](const PathVersion& other) { return left.has_successor(*other.path); });
  if (likely != others_.end() && takes_over(*likely)) return true;
  return std::ranges::any_of(others_, takes_over) || takes_over(first_);
}

bool Follower::finds_next_part() {
  auto fits = [this] { return finds_recorded_tensors(walk_); };
  return fits() || changes_path(fits);
}

void Follower::leave_uncompiled(const UncompiledChanges& changes) {
  walk_.let_escape(changes.objects);
  walk_.at().frame().is_spoiled |= changes.any();
  has_other_needs_ |= changes.any_other_need;
  changed_.insert(changed_.end(), changes.named.begin(), changes.named.end());
  is_off_path_ = !changes.reshaped.empty() || !changed_.empty() || !finds_next_part();
  if (is_off_path_) difference_ = "uncompiled code has changed what tensors of the body are";
}

bool Follower::changes_need(const Tensor& captured, bool value) {
  if (!ends_segment("requires_grad_() is called")) return false;
  Frame& frame = walk_.at().frame();
  const Path::Object& object = walk_.path().objects()[walk_.at().object_of_real(captured)];
  if (object.origin.kind == ValueOrigin::Kind::implicit)
    frame.first_needs.try_emplace(object.origin.index, captured.requires_grad());
  {
    PauseRecording as_it_is;
    Tensor(captured).requires_grad_(value);
  }
  mark_requires_grad(walk_.fake_of(captured), value);
  UncompiledChanges changes;
  walk_.each_held([&](uint32_t, const Tensor& fake) {
    const Tensor& real = walk_.real_of(fake);
    if (!real.defined() || !shares_storage(real, captured)) return;
    if (fake.requires_grad() == real.requires_grad()) return;
    mark_requires_grad(fake, real.requires_grad());
    changes.any_other_need = true;
  });
  frame.is_spoiled |= changes.any();
  has_other_needs_ = has_unsettled_needs_ = true;  // a module has many of them
  return true;
}

// Before the next step.
void Follower::settle_needs() {
  if (std::exchange(has_unsettled_needs_, false)) leave_uncompiled({});
}

bool Follower::ends_segment(std::string_view what) {
  if (is_off_path_) return false;
  auto ends = [this] { return walk_.path().has_breaks() && walk_.ends_segment(helpers_.segments); };
  if (!ends() && !changes_path(ends)) {
    difference_ = message("{} after {} operations", what, walk_.at().next_step());
    return false;
  }
  has_passed_break_ = true;
  if (walk_.has_pending_steps()) walk_.run_segment(helpers_.segments);
  return true;
}

bool Follower::passes_break(std::string_view what) {
  if (!ends_segment(what)) return false;
  // Code of each part is for tensors that need gradients as they did in its recording.
  const Path::Part* next = walk_.next_part();
  if ((has_other_needs_ || (next && next->has_other_needs)) && !finds_next_part()) {
    is_off_path_ = true;
    difference_ = "other tensors need gradients";
  }
  return true;
}

namespace {

std::vector<bool> have_histories(std::span<const Tensor> results) {
  std::vector<bool> have;
  for (const Tensor& t : results)
    have.push_back(t.defined() && t.is_fake() && t.requires_grad() && autograd::has_history(t));
  return have;
}

}  // namespace

void Follower::finish() {
  if (is_off_path_) return stop_following();
  const TouchedGradients* left = is_on_tape() ? &gradients_ : nullptr;
  std::vector<bool> histories;
  if (is_on_tape()) histories = have_histories(results_.tensors);
  bool keeps = false, shares_otherwise = false;
  auto ends = [&] {
    if (walk_.path().has_breaks()) return walk_.ends_segment(helpers_.segments);
    // The tape holds what it has saved as long as there is one.
    keeps = !is_on_tape() && walk_.has_escapes(results_.tensors, gradients_);
    const PathVersion& version = walk_.at().version();
    const std::vector<bool>& recorded = version.recording->gradients.needs_history;
    bool has_histories = is_on_tape() ? histories == recorded : recorded.empty();
    bool ends_whole = !keeps && has_histories && walk_.ends_whole(results_.tensors, left);
    if (!ends_whole) return false;
    shares_otherwise = !helpers_.holds(version, walk_.at().frame().slots);
    return !shares_otherwise;
  };
  if (ends() || changes_path(ends)) {
    if (walk_.path().has_breaks()) return finish_segments();
    if (!is_on_tape()) return;
    leave_tape();
    if (!walk_.has_escapes(results_.tensors, gradients_)) return;
    keeps = true;
  }
  size_t n = walk_.path().steps().size();
  difference_ = walk_.at().next_step() < n
                    ? message("it ends after {} of {} operations", walk_.at().next_step(), n)
                : keeps            ? "it keeps a tensor beyond the call"
                : shares_otherwise ? "tensors that it writes share memory with others differently"
                                   : "its results are others";
  stop_following();
}

// The last segment runs; results and whatever else holds fakes get what they stand for. A result that
// somebody else holds, too, stays one object.
void Follower::finish_segments() {
  if (walk_.has_pending_steps()) walk_.run_segment(helpers_.segments);
  walk_.let_escape(kept_beside(walk_, results_.tensors));
  for (Tensor& t : results_.tensors)
    if (t.defined() && t.is_fake()) t = walk_.take_real(t);
}

void Follower::stop_following() {
  late_tape_.make();
  if (difference_.empty()) difference_ = "it does what is only recorded";
  {
    ModesOf around_the_call(helpers_.modes);
    GradientsAsRecorded grad(walk_.grad());
    trace_ = helpers_.record(walk_.path(), difference_);
    if (has_changed_needs_) trace_->note_changed_need();
  }
  thread_modes.follower = nullptr;  // what comes now is recorded
  uint64_t outside = thread_modes.excluded_outside;
  trace_scope_ = std::make_unique<TraceScope>(*trace_, *body_);
  thread_modes.excluded_outside = outside;
  OpUnit::Start open =
      walk_.become_recording(*trace_, open_unit_ ? open_unit_step_ : StepRange::none);
  if (open_unit_) open_unit_->begin(open);
  forget_named(*trace_, changed_);
  trace_->inputs().host_writes = std::move(host_writes);
  (is_on_tape() ? trace_->gradients() : trace_->early_gradients()) = std::move(gradients_);
  leave_needs();
}

namespace {

const bool installed_follow = (
    follow_slot = [](const CallArgs& call) { return Follower::current()->takes(call); },
    stop_following_slot = [] { Follower::current()->stop_following(); }, true);

}  // namespace

}  // namespace tenon
