// What does not fit into a graph: calls that run outside of the recording, and fakes that somebody
// keeps beyond it.
#include "capture/outside.h"

#include "autograd/saved/saved_tensor_hooks.h"
#include "capture/errors/error_of_run.h"
#include "capture/follow/follow.h"
#include "capture/trace.h"
#include "config/flags.h"
#include "core/arguments.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/tensor/each_tensor.h"
#include "core/tensor/stand_in.h"
#include "ops/custom_op.h"
#include "ops/forms/history.h"
#include "ops/op_table.h"

#include <tenon/compile.h>

namespace tenon {

constinit thread_local int32_t n_uncompiled_scopes = 0;

static void begin_uncompiled(std::string_view reason, std::source_location where) {
  if (!is_uncompiled()) graph_break(reason, where);
  ++n_uncompiled_scopes;
}

NoCompile::NoCompile(std::string_view reason, std::source_location where) {
  begin_uncompiled(reason, where);
}
NoCompile::~NoCompile() { --n_uncompiled_scopes; }

namespace detail {

UncompiledScope::UncompiledScope(bool on) : on_(on) { n_uncompiled_scopes += on_; }
UncompiledScope::~UncompiledScope() { n_uncompiled_scopes -= on_; }

std::string what_of(const DisableOptions& options) {
  return options.reason.empty() ? "disable" : "disable (" + options.reason + ")";
}

}  // namespace detail

namespace {

std::string name_and_reason(const OpEntry& op) {
  return is_kept_recurrent(op) ? op.name + " (dynamo.allow_rnn = false)" : op.name;
}

}  // namespace

bool is_kept_recurrent(const OpEntry& op) {
  return (op.def->tags & OpTags::recurrent) && !config::flags().dynamo.allow_rnn;
}

// Flag dynamo.only_allow_pt2_compliant_ops; operations of Tenon all have the tag.
static bool is_compliant(const OpEntry& op) {
  const CustomOp* added = custom_op_of(op.functional ? *op.functional : op);
  return !added || added->pt2_compliant;
}

bool stays_outside(const OpEntry& op, bool fullgraph) {
  if (is_uncompiled()) return true;
  const config::DynamoFlags& flags = config::flags().dynamo;
  bool refused = flags.only_allow_pt2_compliant_ops && !is_compliant(op);
  require(!refused || !fullgraph, ErrorCode::graph_break,
          "{} lacks the tag pt2_compliant, without which dynamo.only_allow_pt2_compliant_ops lets "
          "no operation into a graph, and fullgraph = true forbids cutting the graph; declare it "
          "with .pt2_compliant() if its functions are pure, or set the flag to false",
          op.name);
  return refused || is_kept_recurrent(op);
}

namespace {

// Its layout and dtype. Where it lies in memory is asked for when a segment runs.
TensorGuard layout_of(const Tensor& real) {
  TensorGuard layout = guard_of(real);
  layout.any_requires_grad = true;
  return layout;
}

}  // namespace

// The caller has a handle of an argument, too: the fake goes on as that, since the body would reshape
// another object for one that it becomes.
static void renew_argument(const Tensor& fake, const Tensor& real) {
  replace_metadata(fake, real.sizes(), real.strides(), real.storage_offset());
  mark_requires_grad(fake, real.requires_grad());
}

OutsideOfBody::OutsideOfBody(bool shows_fakes) {
  Follower* follower = shows_fakes ? Follower::current() : nullptr;
  Trace* trace = shows_fakes && !follower ? Trace::current() : nullptr;
  if (follower) {
    const Walk& walk = follower->walk();
    walk.each_reachable_name([&](const Tensor& real) { name(real); });
    walk.each_held([&](uint32_t object, const Tensor& fake) {
      bool is_argument = walk.path().objects()[object].origin.kind == ValueOrigin::Kind::leaf;
      show(fake, walk.real_of(fake), is_argument, object);
    });
  }
  if (trace) {
    for (const auto& [real, fake] : trace->inputs().stand_ins.all()) name(real);
    for (const Tensor& fake : trace->held_fakes())
      show(fake, concrete_of(fake), is_argument(trace->inputs(), fake));
  }
  pause_.emplace();
  plain_numbers_.emplace();
}

void OutsideOfBody::name(const Tensor& real) {
  named_.push_back({real, layout_of(real), real.requires_grad()});
}

void OutsideOfBody::show(const Tensor& fake, const Tensor& real, bool is_argument,
                         uint32_t object) {
  if (!fake.is_fake() || !real.defined()) return;
  Tensor kept = real;
  TensorGuard layout = layout_of(kept);
  bool needs_grad = kept.requires_grad();
  Tensor before = show_as(fake, kept);
  shown_.push_back({fake, kept, before, layout, needs_grad, is_argument, object});
}

bool OutsideOfBody::is_shown(const Tensor& real) const {
  return std::ranges::any_of(shown_, [&](const Shown& s) { return same_head(s.real, real); });
}

UncompiledChanges OutsideOfBody::end_shows() {
  UncompiledChanges changes;
  for (const Named& n : named_)
    if (!matches(n.layout, n.real) ||
        (n.real.requires_grad() != n.needed_grad && !is_shown(n.real)))
      changes.named.push_back(n.real);
  for (const Shown& s : shown_) {
    bool is_moved = !matches(s.layout, s.real);  // by another handle than the body's
    if (is_moved) become(s.fake, s.real);
    // What lies otherwise than recorded is no tensor of the recording any more.
    if (end_show(s.fake, s.real, s.before) || is_moved) {
      changes.reshaped.push_back(s.fake);
      if (s.is_argument)
        renew_argument(s.fake, s.real);
      else
        changes.objects.push_back(s.object);
    }
    if (s.real.requires_grad() == s.needed_grad) continue;
    changes.any_other_need = true;
    mark_requires_grad(s.fake, s.real.requires_grad());
  }
  return changes;
}

void begin_segment(Trace& trace, std::string_view what, std::source_location where) {
  trace.graph_break(what, where);
  trace.inputs().restart();
}

void change_needs(Trace& trace, std::string_view what, std::source_location where) {
  begin_segment(trace, what, where);
  trace.recording_.why_not_followed = message("{} changes what needs a gradient", what);
}

void forget_named(Trace& trace, std::span<const Tensor> named) {
  if (named.empty()) return;
  trace.recording_.why_not_followed = "uncompiled code has changed what tensors of the body are";
  TraceInputs& inputs = trace.inputs();
  std::vector<Tensor> captured;
  for (const Tensor& real : named) {
    Tensor fake = inputs.stand_ins.fake_of(real);
    if (fake.defined() && is_argument(inputs, fake))
      renew_argument(fake, real);
    else
      captured.push_back(real);
  }
  inputs.stand_ins.forget(captured);
}

// What lies otherwise than recorded is no tensor of the recording any more, but for arguments.
static void note_reshaped(Trace& trace, const Tensor& fake) {
  TraceInputs& inputs = trace.inputs();
  Tensor real = concrete_of(fake);
  if (is_argument(inputs, fake)) return forget_named(trace, {&real, 1});
  escape(fake, real, inputs.is_made_here(fake));
}

// A segment that begins here has met arguments as they were.
static void meet_anew(Trace& trace) {
  if (recorder_of_thread().graph().nodes().empty()) trace.inputs().restart();
}

// Code has run between two segments of a recording.
static void note_changes(Trace& trace, const UncompiledChanges& changes) {
  for (const Tensor& fake : changes.reshaped) note_reshaped(trace, fake);
  forget_named(trace, changes.named);
  if (changes.any()) meet_anew(trace);
}

OutsideOfBody::~OutsideOfBody() {
  plain_numbers_.reset();
  pause_.reset();
  if (named_.empty() && shown_.empty()) return;
  UncompiledChanges changes = end_shows();
  if (Follower* follower = Follower::current())
    follower->leave_uncompiled(changes);
  else
    note_changes(*Trace::current(), changes);
}

bool runs_between_segments(const CallArgs& call) {
  bool is_to_run = gives_what_data_decides(call) || is_kept_recurrent(*call.op) || is_uncompiled();
  return is_to_run && !call.op->mutated_args;
}

namespace {

// A write gives a history to all tensors over the memory, or detach_() takes one.
void follow_needs(Trace& trace) {
  bool any = false;
  auto follow = [&](const Tensor& fake, const Tensor& real) {
    if (!fake.is_fake() || !real.defined() || fake.requires_grad() == real.requires_grad()) return;
    mark_requires_grad(fake, real.requires_grad());
    any = true;
  };
  for (const Tensor& fake : trace.held_fakes()) follow(fake, concrete_of(fake));
  for (const auto& [real, fake] : trace.inputs().stand_ins.all()) follow(fake, real);
  if (any) meet_anew(trace);
}

/// What an operation writes that runs outside of the graph. It may have other sizes then, and another
/// need of a gradient.
class WrittenOutside {
 public:
  explicit WrittenOutside(const CallArgs& call) {
    uint64_t written = written_args(call);
    for (uint32_t i = 0; i < call.n_args; ++i)
      if (written >> i & 1)
        each_tensor(call.args[i], [&](const Tensor& t) {
          if (Tensor real = real_of(t); real.defined())
            written_.push_back({t, real, layout_of(real), real.requires_grad()});
        });
  }
  void note_changes(Trace& trace) const {
    for (const Written& w : written_) {
      if (matches(w.layout, w.real)) continue;
      if (w.given.is_fake()) note_reshaped(trace, w.given);
      forget_named(trace, {&w.real, 1});
      meet_anew(trace);
    }
    auto has_other_need = [](const Written& w) { return w.real.requires_grad() != w.needed_grad; };
    if (std::ranges::any_of(written_, has_other_need)) follow_needs(trace);
  }

 private:
  struct Written {
    Tensor given, real;
    TensorGuard layout;
    bool needed_grad;
  };
  std::vector<Written> written_;
};

}  // namespace

// What the body knows as `made`, which is one of the arguments where the operation is in place; null for
// others.
static const Tensor* given_as(const CallArgs& call, std::span<const Value> reals,
                              const Tensor& made) {
  for (uint32_t i = 0; i < call.n_args; ++i)
    if (reals[i].tag == Tag::tensor && same_head(*reals[i].as<Tensor>(), made))
      return call.args[i].as<Tensor>();
  return nullptr;
}

// A segment that has begun, and has no operation yet, has the tensor as it is now.
static void forget_need(GraphRecorder& recorder, const TraceInputs& inputs, const Tensor& met) {
  set_need(inputs, met, false);
  Tensor fake = met.is_fake() ? met : inputs.stand_ins.fake_of(met);
  if (!fake.defined() || !recorder.owns(fake) || !recorder.graph().nodes().empty()) return;
  recorder.graph().value(recorder.value_of(fake)).flags.requires_grad = false;
}

void Trace::break_because(std::string reason) try { cut(std::move(reason)); } catch (...) {
  ErrorOfRun::note_current();  // whatever it says, a plain run has no break
  throw;
}

// Runs what is pending, then the operation itself.
void Trace::run_outside(const CallArgs& call, bool is_between_segments) {
  if (ErrorOfRun::runs_at_once()) return run_at_once(call);
  if (!is_uncompiled()) graph_break(name_and_reason(*call.op));
  if (!is_between_segments)
    recording_.why_not_followed = message("{} runs outside of the graph", call.op->name);
  std::vector<Value> args(call.args, call.args + call.n_args);
  ArgumentLists lists;
  map_arguments(args, lists, real_of, [this](Number n) { return symbols_.plain(n); });
  bool shows_fakes = autograd::packs_saved_tensors();
  std::optional<WrittenOutside> written;
  if (!shows_fakes) written.emplace(call);
  {
    OutsideOfBody outside(shows_fakes);
    dispatch(*call.op, args.data(), call.n_args, call.results, call.n_results);
  }
  if (written) written->note_changes(*this);
  PauseRecording pause;
  if (is_between_segments) return;
  if (forgets_history(*call.op)) forget_need(recorder_, inputs_, *call.args[0].as<Tensor>());
  for (uint32_t r = 0; r < call.n_results; ++r) {
    if (call.results[r].tag != Tag::tensor_owned) continue;
    Tensor made = take<Tensor>(call.results[r]);
    const Tensor* given = given_as(call, args, made);
    call.results[r] = Value::own(given ? Tensor(*given) : inputs_.fake_for_result(made));
  }
}

bool Trace::has_used_memory_of(const Tensor& lent) const {
  const Tensor no_tensor;
  auto real_of = [&](size_t input) -> const Tensor& {
    std::span<const Tensor> reals = inputs_.segment_inputs();
    return input < reals.size() ? reals[input] : no_tensor;
  };
  const Graph& graph = recorder_.graph();
  return use_memory_of(lent, graph, graph.nodes().size(), real_of);
}

std::vector<Tensor> Trace::held_fakes() const {
  std::vector<Tensor> held = escaped_of(recorder_.live_fakes(), {});
  std::ranges::copy(escaped_of(recorder_.earlier_fakes(), {}), std::back_inserter(held));
  return held;
}

// Those of `fakes` that somebody keeps beyond the call.
std::vector<Tensor> Trace::escaped_of(std::vector<Tensor> fakes,
                                      std::span<const Tensor> body_outputs) const {
  std::erase_if(fakes, [&](const Tensor& fake) {
    int32_t ours = 1 + recorder_.own_references(fake) + inputs_.references(fake) +
                   gradients_.references(fake) + early_gradients_.references(fake) +
                   log_calls_.references(fake);  // 1: in `fakes`
    for (const Tensor& t : body_outputs) ours += same_head(t, fake);
    return fake.head()->references.load() <= ours;
  });
  return fakes;
}

bool has_done_nothing(Trace& trace, std::span<const Tensor> results) {
  if (trace.is_on_tape()) {
    trace.gradients_.give_back();
    TouchedGradients::end_tape(trace.recorder_.live_fakes());
  }
  const Recording& so_far = trace.recording_;
  return !so_far.has_graph_breaks() && so_far.segments.empty() &&
         trace.escaped_of(trace.recorder_.live_fakes(), results).empty();
}

namespace {

// For people: a fake, and what has made it.
std::string text_of(const Tensor& fake) {
  GraphRecorder& recorder = recorder_of_thread();
  const GraphValue& value = recorder.graph().value(recorder.value_of(fake));
  if (value.source != ValueSource::node) return message("a traced tensor ({})", fake);
  const Node& node = recorder.graph().node(value.source_index);
  return message("a traced tensor ({}) that {} made{}", fake, entry_of(node.op).name,
                 at_place(node.where));
}

}  // namespace

// They get their real tensors, and the body runs on every call.
void Trace::finish_escapes(std::span<const Tensor> body_outputs) {
  std::vector<Tensor> pending = escaped_of(recorder_.live_fakes(), body_outputs);
  std::vector<Tensor> earlier = escaped_of(recorder_.earlier_fakes(), body_outputs);
  if (pending.empty() && earlier.empty()) return;
  require(config::flags().capture.on_escape != "error", ErrorCode::graph_break,
          "{} traced tensors were stored outside of the function, the first is {}, and "
          "capture.on_escape is \"error\"; return them instead",
          pending.size() + earlier.size(), pending.empty() ? earlier[0] : pending[0]);
  if (!pending.empty()) {
    std::string what = message("{} is stored outside of the function", text_of(pending[0]));
    require(!fullgraph, ErrorCode::graph_break,
            "{}, which needs a graph break, and fullgraph = true forbids cutting the graph; return "
            "it and store it after the call, or leave out fullgraph",
            what);
    graph_break(what);
  }
  for (const auto* list : {&pending, &earlier})
    for (const Tensor& fake : *list)
      if (Tensor real = concrete_of(fake); real.defined())
        escape(fake, real, inputs_.is_made_here(fake));
}

namespace {

const bool installed_outside = (
    autograd::begin_saved_tensor_hooks_slot = [] { begin_uncompiled("SavedTensorHooks", {}); },
    autograd::end_saved_tensor_hooks_slot = [] { --n_uncompiled_scopes; }, true);

}  // namespace

}  // namespace tenon
