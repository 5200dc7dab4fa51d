// Recordings for entries, for single calls, and for verifying an entry.
#include "compile/replay.h"

#include "capture/tape/run_again.h"
#include "capture/trace.h"
#include "compile/explain.h"
#include "compile/segments.h"
#include "compile/site_settings.h"
#include "compile/tape_pieces.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "report/compile_record.h"
#include "runtime/limits.h"
#include "runtime/repro.h"
#include "runtime/verify.h"

#include <tenon/autograd.h>

#include <algorithm>

namespace tenon {

using detail::Body;
using detail::CallResult;
using detail::Leaves;
using detail::Site;

namespace {

// What were symbols are symbols, whatever calls have taught since.
void take_symbols_of(const GuardSet& guards, TracePolicy& policy) {
  for (size_t i = 0; i < policy.sizes.size() && i < guards.tensors.size(); ++i)
    for (size_t d = 0; d < policy.sizes[i].size(); ++d) {
      DimPolicy& size = policy.sizes[i][d];
      bool is_free = guards.tensors[i].free_sizes >> d & 1;
      if (!is_free) size = DimPolicy::fixed;
      if (is_free && size == DimPolicy::fixed) size = DimPolicy::duck;
    }
  for (size_t i = 0; i < policy.strides.size() && i < guards.tensors.size(); ++i)
    for (size_t d = 0; d < policy.strides[i].size(); ++d) {
      const TensorGuard& tensor = guards.tensors[i];
      bool steps = (tensor.free_sizes >> d & 1) || tensor.sizes[d] != 1;  // else no stride matters
      bool is_free = steps && (tensor.free_strides >> d & 1) && !tensor.free_sizes;
      policy.strides[i][d] = is_free ? DimPolicy::duck : DimPolicy::fixed;
    }
  for (size_t i = 0; i < policy.numbers.size() && i < guards.numbers.size(); ++i)
    policy.numbers[i] = guards.numbers[i].is_symbolic();
}

std::unique_ptr<Trace> trace_like(Site& site, const Leaves& leaves, const Path* left,
                                  const Entry* like) {
  TracePolicy policy;
  {
    std::lock_guard lock(site.changing);
    policy = policy_of(site, leaves, left);
  }
  if (like) {
    take_symbols_of(like->recorded.guards, policy);
    policy.earlier_number = {};
    policy.compares_turns = false;
  }
  auto trace = std::make_unique<Trace>(leaves, policy, segment_runner(site));
  trace->leaves_body_out = site.skips_bodies();
  return trace;
}

}  // namespace

std::unique_ptr<Trace> new_trace(Site& site, const Leaves& leaves, const Path* left) {
  return trace_like(site, leaves, left, nullptr);
}

namespace {

// What marks forbid is found before the body runs.
std::unique_ptr<Trace> trace_or_hide(Site& site, const Leaves& leaves, const Entry* like) {
  try {
    return trace_like(site, leaves, nullptr, like);
  } catch (const Error&) {
    if (auto hidden = hidden_refusal()) throw *hidden;
    throw;
  }
}

Recording record_once(Site& site, const Leaves& leaves, const Body& body, const Entry* like) {
  std::unique_ptr<Trace> trace = trace_or_hide(site, leaves, like);
  auto* watch = report::CompileWatch::current();
  try {
    return trace->run(body);
  } catch (const std::exception& error) {
    if (watch && config::flags().dynamo.replay_record_enabled)
      write_execution_record(*trace->execution_record(), watch->record().id, error.what());
    throw;
  }
}

}  // namespace

static Recording record_once_or_twice(Site& site, const Leaves& leaves, const Body& body,
                                      const Entry* like) {
  try {
    return record_once(site, leaves, body, like);
  } catch (const WantsTape&) {  // the site knows from now on
  }
  return record_once(site, leaves, body, like);
}

Recording record_body(Site& site, const Leaves& leaves, const Body& body, ModesOfCall& modes,
                      const Entry* like) {
  report::PhaseScope phase("trace");
  std::optional<config::InheritPatches>
      as_then;  // under other flags a body may be recorded otherwise
  if (like) as_then.emplace(like->flags);
  Recording recording = record_once_or_twice(site, leaves, body, like);
  modes.body_is_over(recording);
  return recording;
}

void note_recording(Site& site, const Recording& recording) {
  site.graph_breaks += recording.n_graph_breaks;
  explain_recording(site, recording);
  constexpr size_t most_kept = 64;
  std::lock_guard lock(site.changing);
  for (const std::string& reason : recording.break_reasons)
    if (site.break_reasons.size() < most_kept &&
        std::ranges::find(site.break_reasons, reason) == site.break_reasons.end())
      site.break_reasons.push_back(reason);
  if (site.unit)
    for (const std::string& reason : recording.break_reasons) site.unit->note_break(reason);
}

void give_results(Recording& recording, CallResult& result) {
  result.tensors.clear();
  for (Tensor& t : recording.results) result.tensors.push(std::move(t));
  result.numbers = recording.output_numbers;
}

namespace {

std::shared_ptr<Artifact> code_of_equal_graphs(Site& site, const std::shared_ptr<Graph>& graph,
                                               std::span<const int64_t> words,
                                               const std::vector<Overlap>& overlaps) {
  constexpr size_t first_place = 0;
  auto code = segment_code(site, graph, words, overlaps, first_place);
  if (code->because != Eager::none) note_eager_call(site, code->because);
  return code->artifact;
}

}  // namespace

// One without graph breaks has not run yet; the code of an equal graph serves it.
void finish_call(Site& site, Recording recording, const Leaves& leaves, CallResult& result,
                 CodeOf code) {
  RulesOfRecording rules{recording.shape_env};
  if (recording.has_graph_breaks()) {
    if (code == CodeOf::equal_graphs) note_segments(site, recording);
    return give_results(recording, result);
  }
  std::vector<Tensor> slots = recording.captured();
  Entry once("", std::move(recording), leaves);
  const Recording& recorded = once.recorded;
  if (recorded.has_code) {
    std::vector<int64_t> words(recorded.guards.loads.size());
    recorded.guards.load(leaves, words.data(), recorded.given.words);
    EnableGradGuard mode(thread_modes.grad_enabled && !recorded.has_backward);
    once.artifact = code == CodeOf::interpreter
                        ? op_by_op(recorded.graph)
                        : code_of_equal_graphs(site, recorded.graph, words, once.recorded_overlaps);
  }
  autograd::RequestsOfCall brings(recorded.requests);
  once.run({leaves, slots, recorded.given.words}, result);
}

bool serve_by_equal(Site& site, const Recording& recording, const Leaves& leaves,
                    CallResult& result) {
  Entry* known = nullptr;
  {
    std::lock_guard lock(site.changing);
    known = equal_version(site, recording, leaves);
  }
  if (!known) return false;
  RulesOfRecording rules{recording.shape_env};
  std::vector<Tensor> slots = recording.captured();
  autograd::RequestsOfCall brings(recording.requests);
  known->run({leaves, slots, recording.given.words, &recording.log_calls}, result);
  return true;
}

namespace {

// Recordings to come are compared with it.
void learn_numbers(Site& site, const Recording& recording, const Leaves& leaves) {
  std::lock_guard lock(site.changing);
  for (uint32_t i = 0; i < site.versions.size(); ++i)
    if (site.versions[i]->accepts(leaves))
      return site.versions[i]->courses.add_without_path(recording);
}

void on_replay(Site& site, const Leaves& leaves, const Body& body, CallResult& result) {
  if (site.run_only && site.eager_because == Eager::suppressed_error)
    return run_eagerly(site, body);
  config::OptionScope options(site.flags);
  ++site.replays;
  serve_or_run_eagerly(site, body, [&] {
    ModesOfCall modes;
    Recording recording = record_body(site, leaves, body, modes);
    if (recording.has_graph_breaks())
      return serve_recording(site, std::move(recording), leaves, result);
    if (serve_by_equal(site, recording, leaves, result)) return;
    learn_numbers(site, recording, leaves);
    finish_call(site, std::move(recording), leaves, result);
  });
}

// The answer of a call that shows its entry to be stale comes from the new recording.
bool verify(Site& site, Entry& entry, const Leaves& leaves, const Body& body, CallResult& result) {
  config::OptionScope options(site.flags);
  ++site.replays;
  bool is_stale = true;
  serve_or_run_eagerly(site, body, [&] {
    ModesOfCall modes;
    Recording found = record_body(site, leaves, body, modes, &entry);
    is_stale = !is_same(found, entry.recorded);
    if (!is_stale) return;
    report_stale(site, found, entry.recorded);
    finish_call(site, std::move(found), leaves, result);
  });
  return is_stale;
}

const struct FillSlots {
  FillSlots() {
    replay_slot = &on_replay;
    verify_slot = &verify;
  }
} fill_slots;

}  // namespace

void replay_body(Site& site, const Leaves& leaves, const Body& body, CallResult& result) {
  ++site.replays;
  ModesOfCall modes;
  finish_call(site, record_body(site, leaves, body, modes), leaves, result);
}

}  // namespace tenon
