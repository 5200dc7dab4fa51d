// Recording one call: graph breaks, segments, and what the body gives.
#include "capture/trace.h"

#include "capture/body_scope.h"
#include "capture/errors/error_of_run.h"
#include "capture/follow/frame.h"
#include "capture/lazy_numbers.h"
#include "capture/op_logs.h"
#include "capture/outside.h"
#include "capture/rescue.h"
#include "capture/tape/hooks.h"
#include "capture/tape/run_again.h"
#include "capture/tape/views_outside.h"
#include "capture/watch_symbols.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/grad_mode.h"
#include "core/kept_numbers.h"
#include "core/sym/shape_env.h"
#include "core/tensor/each_tensor.h"
#include "ops/forms/history.h"
#include "ops/modes/autocast.h"
#include "ops/op_table.h"
#include "report/compile_record.h"
#include "report/events.h"
#include "report/log.h"
#include "report/observers.h"
#include "report/stack.h"

#include <tenon/autograd.h>
#include <tenon/ops/copy.h>

#include <algorithm>

namespace tenon {

namespace {

thread_local Trace* current_trace = nullptr;

// The history of what the segment has not made lies outside of the graph.
bool cuts_history(Trace& trace, const CallArgs& call) {
  if (!forgets_history(*call.op) || trace.is_on_tape()) return false;
  const Tensor& t = *call.args[0].as<Tensor>();
  Tensor fake = t.is_fake() ? t : trace.inputs().stand_ins.fake_of(t);
  bool is_made_here = t.is_fake() && !concrete_of(t).defined();
  return !is_made_here && (fake.defined() ? fake : t).requires_grad();
}

}  // namespace

Trace* Trace::current() {
  if (thread_modes.follower) stop_following_slot();
  return thread_modes.tracer ? current_trace : nullptr;
}

Trace::Trace(const detail::Leaves& leaves, const TracePolicy& policy, SegmentRunner run_segment)
    : fullgraph(policy.fullgraph),
      callable(policy.callable),
      env_(ShapeEnv::make()),
      run_segment_(std::move(run_segment)),
      recorder_(env_),
      inputs_(leaves, recorder_, policy.state),
      symbols_(leaves, recorder_, policy),
      turns_(*env_, policy.compares_turns),
      numbers_(*env_, policy.body_numbers, policy.earlier_number, turns_),
      keep_empty_(policy.keep_empty),
      calls_backward_(policy.calls_backward) {
  recording_.shape_env = env_;
  recorder_.on_tape = policy.on_tape;
  symbols_.take_rules();
  watch_symbols(*env_);
  env_->set_materialize([this](const Expr* expr) { return look_at(expr); });
  // What a body does with a number is seen, where it runs on every call. Runs take a unit as one.
  env_->set_tells_arguments([this] {
    bool asks_itself = thread_modes.tracer == &recorder_ && !recorder_.op_in_meta();
    bool tells = asks_itself && !leaves_body_out && !OpUnit::is_any_open();
    recording_.reads_arguments |= tells;
    return tells;
  });
  set_hooks();
  ShapeEnvScope scope(*env_);
  inputs_.add_arguments(policy);
  numbers_.expect(policy.changing, inputs_.argument_numbers());
}

// The rules hold until the recording's graph is lowered, where there is one.
Trace::~Trace() {
  env_->set_materialize({});
  env_->set_tells_arguments({});
  if (is_done_) return;
  env_->set_rules({});
  symbols_.keep_values();
}

static bool may_look(const Trace& trace) {
  return !trace.fullgraph && !config::flags().shapes.no_data_dependent_graph_break;
}

// What the recorder asks, in the order in which it asks for one op.
void Trace::set_hooks() {
  recorder_.opens = is_traced_through;
  recorder_.runs_outside = [this](const CallArgs& call) {
    if (ErrorOfRun::runs_at_once()) return run_at_once(call), true;
    keep_lazy_numbers(call);
    if (symbols_.takes_as_guard(call)) return true;
    turns_.expect(call.op->id);
    check_writes_to_tape(inputs_, recorder_, call);
    if (inputs_.meets_lent_memory(call))
      break_because(message("{} gets memory that another tensor lies in", call.op->name));
    if (!stays_outside(*call.op, fullgraph) && !cuts_history(*this, call)) return false;
    run_outside(call, runs_between_segments(call));
    return true;
  };
  auto named = [this](SymInt offset) {
    return turns_.named_offset(offset, recorder_.graph().inputs().size());
  };
  recorder_.lift = [this, named](const Tensor& real) {
    auto sizes = [this](const Tensor& t, uint32_t slot) {
      return numbers_.sizes_of(t, slot, n_steps_);
    };
    return inputs_.lift(real, *body_, {sizes, named});
  };
  recorder_.adopt = [this, named](const Tensor& fake) {
    if (aliases_.adopt(fake, recorder_)) return true;
    if (!concrete_of(fake).defined()) return false;
    symbols_.renew_sizes(fake);
    Dims sizes = meta_of(fake).sizes;
    if (inputs_.is_made_here(fake)) turns_.name_sizes(sizes, recorder_.graph().inputs().size());
    inputs_.adopt(fake, sizes, named);
    return true;
  };
  recorder_.on_data_dependent = [this](const CallArgs& call) {
    if (symbols_.captures(*call.op)) return false;
    run_outside(call, runs_between_segments(call));  // nobody can say how large the result is
    return true;
  };
  recorder_.on_open_question = [this](const CallArgs& call) {
    if (!may_look(*this)) return ErrorOfRun::note_current(), false;
    run_outside(call);
    return true;
  };
  recorder_.lift_numbers = [this](const OpEntry& op, std::span<Value> args, ArgumentLists& lists) {
    numbers_.lift(n_steps_, op, args, lists);
  };
  recorder_.before_node = [this] { symbols_.emit_asserts(); };
  recorder_.on_node = [this](const CallArgs& call, NodeId id) {
    log_recorded(recorder_.graph(), id);
    if (is_on_tape()) recording_.grads_on.push_back(gradients_are_on());
    n_steps_ += !is_assertion(recorder_.graph().node(id));
    turns_.pass(recorder_.graph().node(id));
    inputs_.check_writes(call);
    inputs_.written.note(call, inputs_.stand_ins);
    if (give_histories_to_views(recorder_, call))
      recording_.why_not_followed =
          message("{} gives views of the program a history", call.op->name);
    note_places(inputs_, call);
    mutates_ = mutates_ || has_effect(*call.op, {call.args, call.n_args});
    has_mutated_ = has_mutated_ || mutates_;
    symbols_.emit_asserts();
    inputs_.shown.show_arguments(call, inputs_);
    if (auto changed = inputs_.captured_changed_by(call); fullgraph)
      inputs_.shown.show(changed, inputs_.stand_ins);
    else if (!changed.empty())
      return break_because(message("{} changes what a captured tensor is", call.op->name));
    if (!inputs_.host_writes.touches(call, concrete_of)) return;
    if (inputs_.lends_twice) recording_.why_not_followed = "the program has lent memory twice";
    require(!fullgraph, ErrorCode::graph_break,
            "{} is on memory that the program may write, since the body has its address, and "
            "fullgraph = true forbids cutting the graph; copy the data before the call",
            call.op->name);
    break_because(message("{} is on memory that the program may write", call.op->name));
  };
}

// ---- graph breaks

void Trace::graph_break(std::string_view what, std::source_location where, BreakKind kind) {
  auto [is_announced, looks] = kind;
  std::string problem =
      message("{} {}{}", what, looks ? "looks at data" : "needs a graph break", at_place(where));
  BodyScope::check(problem);
  if (!is_announced) require_breaks_allowed(what, where);
  require(!fullgraph || is_announced, ErrorCode::graph_break,
          "{}, and fullgraph = true forbids cutting the graph; {}{}", problem,
          looks ? "return the value, or use tenon::where for a choice between tensors"
                : "keep it out of the body, or leave out fullgraph",
          report::stack_if_verbose());
  require_own_code(recorder_, problem);
  break_because(message("{}{}", what, at_place(where)));
}

void Trace::cut(std::string reason) {
  BodyScope::check(reason);
  refuse_unless(
      !is_on_tape(), ErrorCode::unsupported,
      "a body that calls backward() must be one graph, and it is cut: {}; return the value "
      "instead of looking at it, or compile the part before backward()",
      reason);
  if (report::artifact_enabled("graph_breaks"))
    report::log_artifact("graph_breaks", reason + report::stack_if_verbose());
  report::count_in("graph_break", reason);
  report::tell_observers(compiler::EventKind::graph_break, callable, reason);
  recording_.break_reasons.push_back(reason);
  if (!recording_.has_graph_breaks()) recording_.break_reason = std::move(reason);
  ++recording_.n_graph_breaks;
  flush();
}

const Tensor& Trace::observe(const Tensor& fake, std::string_view what,
                             std::source_location where) {
  const ValueId looked_at = recorder_.owns(fake) ? recorder_.value_of(fake) : no_value;
  const size_t n_segments = recording_.segments.size();
  graph_break(what, where, {.looks = true});
  if (recording_.segments.size() > n_segments && looked_at != no_value &&
      recording_.segments.back().graph->value(looked_at).source == ValueSource::node)
    recording_.segments.back().looked_at = looked_at;
  const Tensor& real = concrete_of(fake);
  ensure(real.defined(), "a segment has run without giving a value that is alive");
  return real;
}

// The size of an argument that only code for every size may have.
static bool is_strict(const ShapeEnv& env, const Expr* expr) {
  return std::ranges::any_of(free_symbols(env.simplify(expr)), [&](const Expr* symbol) {
    const SymbolInfo& info = env.info(symbol);
    return info.unbacked && info.must_stay_dynamic;
  });
}

// Somebody asks for a number that depends on data: the segment ends, which shows it.
std::optional<SymValue> Trace::look_at(const Expr* expr) {
  bool is_recording = thread_modes.tracer == &recorder_ && !recorder_.op_in_meta();
  if (!is_recording || !may_look(*this) || is_strict(*env_, expr)) return std::nullopt;
  break_because(message("the value of {} is asked for", env_->text(expr)));
  symbols_.learn_from_arguments(expr);
  return env_->hint(expr);
}

Number Trace::item_symbol(const Tensor& t, Dtype wanted) {
  BodyScope::check("a number read from a tensor, by item(), is used as a symbol");
  // The value of an argument is there before the call, until something is written.
  if (!recording_.has_graph_breaks() && !has_mutated_)
    if (auto known = inputs_.item_of_argument(t, wanted)) return *known;
  return item(t.dtype() == wanted ? t : t.to(wanted));
}

// Runs the segment, whose outputs are the fakes that are alive; each learns its real tensor.
void Trace::flush() {
  RecordingItself asserts_and_numbers;
  symbols_.emit_asserts();
  if (recorder_.graph().nodes().empty()) return;
  inputs_.shown.give_back();
  std::vector<Tensor> alive;
  for (Tensor& fake : recorder_.live_fakes()) {
    ValueId id = impl_of(fake)->extra->trace_value;
    if (recorder_.graph().value(id).source == ValueSource::node) alive.push_back(fake);
  }
  size_t n_alive = alive.size();
  std::vector<const Expr*> shown = symbols_.show(alive);
  if (!shown.empty()) recording_.why_not_followed = "a number of the data is a symbol";
  Segment segment{.graph = recorder_.finish(alive),
                  .inputs = inputs_.segment_origins(),
                  .values_before = recorder_.values_before(),
                  .n_outputs = n_alive,
                  .place = recording_.segments.size(),
                  .units = units_.take(),
                  .writes = mutates_};
  if (recording_.seeks_gradients) keep_whole_gradients(*segment.graph);
  if (mutates_) segment.overlaps = inputs_.segment_overlaps();
  symbols_.bind(*segment.graph, DataSymbols::Bound::mentioned);
  if (is_on_tape()) forget_tape(*segment.graph);
  std::vector<detail::TensorHead*> heads = inputs_.segment_heads(segment.graph->inputs().size());
  segment.inputs.resize(heads.size());
  segment.values_before.resize(segment.graph->values().size(), no_value);
  std::vector<Tensor> results(alive.size());
  mutates_ = false;  // also where it throws: it has run once
  autograd::TapeRequests requests = std::exchange(requests_, {});
  std::exception_ptr failure;
  {
    PauseRecording pause;
    autograd::RequestsOfCall brings(requests);
    GradientsAsRecorded grad(recorder_.grad_enabled() && !is_on_tape());
    env_->set_rules({});  // what lowering asks for has no place to be asserted at
    std::vector<int64_t> words = symbols_.words(*segment.graph);
    auto code = [&] { segment.code = run_segment_(segment, heads, words, results); };
    auto fake_of = [&](size_t i) -> const Tensor& { return alive[i]; };
    failure = run_or_rescue(code, segment, heads, words, results, fake_of);
    symbols_.take_rules();
  }
  if (failure) recording_.why_not_followed = "an operation has failed";
  turns_.add(segment.graph);
  recording_.segments.push_back(std::move(segment));
  inputs_.written.clear();
  for (size_t i = 0; i < n_alive; ++i, ++n_made_) {
    // What came in and was written, or given back by an operation, is the object that it was.
    Tensor& real = impl_of(alive[i])->ensure_extra().concrete;
    if (!real.defined()) {
      real = results[i];
      inputs_.set_origin(alive[i], {ValueOrigin::Kind::graph, n_made_});
    }
    if (real.defined() && real.requires_grad()) mark_requires_grad(alive[i], true);
  }
  if (!failure) symbols_.learn(shown, std::span<const Tensor>(results).subspan(n_alive));
  inputs_.restart();
  if (failure) std::rethrow_exception(failure);
}

void Trace::resume(const Recording& left, const Path& path, size_t n_parts, const Frame& frame) {
  recording_.seeks_gradients = left.seeks_gradients;
  recording_.earlier_guards = left.earlier_guards;
  recording_.earlier_guards.push_back(std::make_shared<const GuardSet>(left.guards));
  constexpr size_t most_kept = 8;
  if (recording_.earlier_guards.size() > most_kept)
    recording_.why_not_followed = "its segments are from too many recordings";
  earlier_env_ = left.shape_env;
  inputs_.restart();
  has_mutated_ = true;
  for (const Path::Part& part : path.parts().first(n_parts)) {
    recording_.segments.push_back(*part.segment);
    turns_.add(part.segment->graph);
    n_steps_ = static_cast<uint32_t>(part.end_step);
    for (uint32_t object : part.outputs) {
      inputs_.set_origin(frame.objects[object], {ValueOrigin::Kind::graph, n_made_++});
      recorder_.know_earlier(frame.objects[object]);
      put_where_it_lies(frame.objects[object]);
    }
  }
  recording_.n_graph_breaks = static_cast<int64_t>(n_parts);
  recording_.break_reason = "it looks at data";
  // Those that a later part has named are met again, with sizes that may be symbols.
  const ValueId end = path.values_before(n_steps_);
  for (uint32_t slot = 0; slot < frame.slots.size(); ++slot) {
    uint32_t object = path.object_at({ValueOrigin::Kind::implicit, slot});
    if (path.objects()[object].value >= end) break;
    inputs_.add_known(frame.slots[slot], frame.objects[object], left.implicit[slot]);
  }
  const size_t n_numbers = path.numbers_before(n_steps_);
  const auto& guards = left.guards.numbers_of_body;
  for (const NumberGuard& guard : std::span(guards).first(std::min(n_numbers, guards.size())))
    std::ranges::copy(guard.conditions, std::back_inserter(earlier_conditions_));
  for (size_t i = 0; i < n_numbers; ++i) {
    const Path::BodyNumber& number = path.numbers()[i];
    numbers_.give(number.place,
                  Value::make(number.kind, static_cast<uint64_t>(frame.numbers[i])).number());
  }
  for (const SharedSize& shared : left.given.shared_sizes)
    if (shared.place.step < n_steps_) numbers_.given.shared_sizes.push_back(shared);
}

std::shared_ptr<Graph> Trace::execution_record() {
  return recorder_.failed_graph() ? recorder_.failed_graph() : recorder_.finish({});
}

// ---- the body, and what it gives

TraceScope::TraceScope(Trace& trace, const detail::Body& body)
    : trace_(trace), outer_(std::exchange(current_trace, &trace)), ops_(trace.recorder_) {
  trace.body_ = &body;
}

TraceScope::~TraceScope() {
  trace_.gradients_.give_back();
  trace_.inputs_.shown.give_back();
  current_trace = outer_;
}

Recording Trace::run(const detail::Body& body) {
  ChangesOfRun changes;
  ErrorOfRun error;
  TraceScope scope(*this, body);
  LazyNumbersOfBody numbers;
  BodyResults results;
  try {
    error.run_to_end(results.tensors, [&] {
      CastsOfBody casts;
      body.run(body.context, inputs_.argument_fakes().data(), inputs_.argument_numbers().data(),
               results.tensors, results.plain);
    });
    return finish(results);
  } catch (const WantsTape&) {
    changes.undo();
    throw;
  } catch (...) {
    hide_refusal(changes, [&] { return has_done_nothing(*this, results.tensors); });
    failed();
    rethrow_unhidden();
  }
}

void Trace::failed() {
  gradients_.give_back();
  inputs_.shown.give_back();
  std::vector<Tensor> kept = escaped_of(recorder_.live_fakes(), {});
  if (is_on_tape() && is_refusal_in_flight()) return give_up(inputs_, *body_, kept);
  std::exception_ptr failure;
  try {
    if (mutates_ || gradients_.has_any() || !kept.empty() || !log_calls_.calls.empty()) flush();
    log_calls_.run_before_throw();
  } catch (...) {
    failure = std::current_exception();
  }
  std::ranges::copy(escaped_of(recorder_.earlier_fakes(), {}), std::back_inserter(kept));
  std::erase_if(kept, [&](const Tensor& fake) {
    Tensor real = concrete_of(fake);
    if (real.defined()) escape(fake, real, inputs_.is_made_here(fake));
    return real.defined();
  });
  give_up(inputs_, *body_, kept);
  gradients_.leave_computed();
  if (failure && !ends_thread()) std::rethrow_exception(failure);
}

Recording Trace::finish(const BodyResults& results) {
  inputs_.shown.give_back();
  recording_.prototype = body_->prototype(body_->context);
  recording_.has_backward = is_on_tape();
  if (is_on_tape()) {
    gradients_.give_back();
    recording_.gradients.needs_history = TouchedGradients::take_histories(results.tensors);
    TouchedGradients::end_tape(recorder_.live_fakes());
  }
  const detail::Leaves& plain = results.plain;
  recording_.plain_results.values.assign(plain.plain.span().begin(), plain.plain.span().end());
  recording_.plain_results.texts.assign(plain.texts.span().begin(), plain.texts.span().end());
  for (Number n : plain.numbers) recording_.output_numbers.push_back(with_kept_values(n));
  finish_escapes(results.tensors);
  recording_.has_graph_breaks() ? finish_pieces(results.tensors) : finish_graph(results.tensors);
  recording_.implicit = std::move(inputs_.implicit);
  recording_.same_tensors = std::move(inputs_.same_tensors);
  report::PhaseScope phase("guards");
  recording_.guards = make_guards(inputs_.recorded_call());
  if (!keep_conditions(earlier_conditions_, earlier_env_, recording_))
    recording_.why_not_followed = "an earlier segment takes other numbers for granted";
  recording_.guards.plain_list = !config::flags().dynamo.enable_cpp_guard_manager;
  is_done_ = true;
  symbols_.keep_values();
  return std::move(recording_);
}

void Trace::take_place(const Tensor& own, const Tensor& held) {
  inputs_.take_place(own, held);
  if (recorder_.owns(own)) return recorder_.take_place(own, held);
  impl_of(held)->ensure_extra().concrete = concrete_of(own);  // of an earlier segment
  recorder_.know_earlier(held);
}

// Runs the last piece; all results are real.
void Trace::finish_pieces(std::span<const Tensor> body_outputs) {
  if (!log_calls_.calls.empty()) recording_.why_not_followed = "log calls wait for its end";
  for (Number& n : recording_.output_numbers)
    if (n.is_symbolic()) n = n.is_integer() ? Number(n.to_int()) : Number(n.to_double());
  flush();
  if (recording_.segments.empty()) recording_.why_not_followed = "it has no operations";
  log_calls_.run();
  for (const Tensor& t : body_outputs) recording_.results.push_back(real_of(t));
  recording_.given = std::move(numbers_.given);
}

// Where a tensor of the recording is found after a run; what nodes make joins the results.
ValueOrigin Trace::origin_of(const Tensor& t, std::vector<Tensor>& results) {
  Tensor fake = t.defined() ? recorder_.as_fake(t) : t;
  if (!fake.defined()) return {};
  const GraphValue& value = recorder_.graph().value(recorder_.value_of(fake));
  if (value.source == ValueSource::input) return inputs_.segment_origins()[value.source_index];
  results.push_back(fake);
  return {ValueOrigin::Kind::graph, static_cast<uint32_t>(results.size() - 1)};
}

void Trace::finish_graph(std::span<const Tensor> body_outputs) {
  std::vector<Tensor> results;
  bool any_node = !recorder_.graph().nodes().empty();
  auto origin = [&](const Tensor& t) { return origin_of(t, results); };
  for (const Tensor& t : body_outputs) recording_.outputs.push_back(origin(t));
  for (PendingLogCalls::Call& call : log_calls_.calls) {
    LogCall& kept = recording_.log_calls.emplace_back(LogCall{call.name, call.text, {}});
    for (const Tensor& t : call.tensors) kept.tensors.push_back(origin(t));
  }
  recording_.number_outputs = symbols_.show_numbers(recording_.output_numbers, results);
  gradients_.finish(
      recording_.gradients,
      [&](const Tensor& leaf) { return inputs_.origin_of(recorder_.as_fake(leaf)); }, origin);
  recording_.has_code = any_node || keep_empty_;
  symbols_.emit_asserts();
  recording_.graph = recorder_.finish(results);
  recording_.values_before = recorder_.values_before();
  recording_.units = units_.take();
  recording_.given = std::move(numbers_.given);
  recording_.requests = std::move(requests_);
  recording_.values_before.resize(recording_.graph->values().size(), no_value);
  if (is_on_tape()) forget_tape(*recording_.graph);
  symbols_.bind(*recording_.graph, DataSymbols::Bound::all);
  recording_.inputs = inputs_.segment_origins();
  recording_.inputs.resize(recording_.graph->inputs().size());
}

}  // namespace tenon
