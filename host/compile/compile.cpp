// READ FIRST: how a call that nothing serves yet becomes compiled code.
//
//   call ──guards hold?──▶ run the entry (runtime/call.cpp)
//     └── miss ──▶ trace ──▶ guards ──▶ lower ──▶ partition ──▶ backend ──▶ entry
//
// A body with graph breaks goes the same way segment by segment (segments.cpp): each is compiled
// when its like was not seen before. Later calls run the body along what was recorded (follow.cpp).
#include "capture/watch_symbols.h"
#include "compile/captured_logs.h"
#include "compile/explain.h"
#include "compile/replay.h"
#include "compile/segments.h"
#include "compile/site_settings.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/sym/shape_env.h"
#include "graph/hash.h"
#include "report/compile_record.h"
#include "runtime/call.h"
#include "runtime/limits.h"
#include "runtime/overrides.h"

#include <tenon/autograd.h>

namespace tenon {

using detail::Body;
using detail::CallResult;
using detail::Leaves;
using detail::Site;

namespace {

// False where dynamo.suppress_errors hides that the recording breaks what marks say of sizes.
bool keeps_marks(Site& site, const Recording& recording) {
  try {
    if (!config::flags().dynamo.allow_ignore_mark_dynamic) recording.shape_env->check_constraints();
  } catch (const Error& error) {
    if (!hides_error(site, std::nullopt, error.what())) throw;
    return false;
  }
  log_specializations(*recording.shape_env);
  return true;
}

// False where the graph runs op by op, since dynamo.suppress_errors hides that there is no code.
bool compile_code(Site& site, Entry& entry) {
  Recording& recorded = entry.recorded;
  if (!recorded.has_code) return true;
  // A graph with a backward of its own: nothing of it goes on the tape.
  EnableGradGuard mode(thread_modes.grad_enabled && !recorded.has_backward);
  MadeCode made = make_code(site, recorded.graph);
  entry.artifact = std::move(made.artifact);
  if (!made.is_compiled) return false;
  exclude_older(site, entry);
  // What the backend took for granted about sizes is checked like the rest.
  recorded.guards.add_backend_conditions(backend_of(site), *recorded.shape_env,
                                         entry.artifact->guards);
  return true;
}

void note_sizes(report::CompileRecord& record, const Site& site, const Entry& entry) {
  const GuardSet& guards = entry.recorded.guards;
  record.n_ops = entry.recorded.graph ? entry.recorded.graph->nodes().size() : 0;
  record.n_guards = guards.tensors.size() + guards.condition_texts.size();
  record.n_symbols = guards.loads.size();
  record.n_entries = site.versions.size();
}

void tell_unit(const Site& site, const Entry& entry) {
  if (!site.unit) return;
  const Recording& recorded = entry.recorded;
  site.unit->note_version({.id = entry.id,
                           .guards = recorded.guards.to_text(),
                           .regime = detail::regime_of(site, entry),
                           .n_nodes = recorded.graph ? recorded.graph->nodes().size() : 0});
}

// Whether a version has the code of a recording, and leaves what the recording has left. Each call
// brings the texts of its log lines.
bool is_alike(const Recording& recording, const Entry& entry) {
  if (recording.has_graph_breaks() || entry.replays())
    return recording.has_graph_breaks() && entry.replays();
  const Recording& other = entry.recorded;
  return recording.inputs == other.inputs && recording.outputs == other.outputs &&
         recording.number_outputs == other.number_outputs &&
         recording.gradients == other.gradients &&
         std::ranges::equal(recording.log_calls, other.log_calls, &LogCall::is_like) &&
         recording.implicit.size() == other.implicit.size() &&
         structurally_equal(*recording.graph, *other.graph);
}

}  // namespace

Entry* equal_version(const Site& site, const Recording& recording, const Leaves& leaves) {
  for (uint32_t i = 0; i < site.versions.size(); ++i) {
    Entry* entry = site.versions[i];
    if (!is_alike(recording, *entry) || !entry->accepts(leaves)) continue;
    bool serves = entry->replays() ||
                  (entry->recorded.guards.numbers_hold(leaves, recording.given.words) &&
                   entry->serves_followed({leaves, recording.captured()}) &&
                   (!site.skips_bodies() ||
                    (entry->recorded.guards.check(leaves) && entry->program_guards_hold())));
    if (serves) return entry;
  }
  return nullptr;
}

namespace {

// From now on calls bring what the body captured.
void take_slots(Entry& entry) {
  entry.takes_slots = true;
  for (ImplicitInput& in : entry.recorded.implicit) in.tensor = Tensor();
  for (CapturedHandle& handle : entry.captured_handles) handle.met = nullptr;
  entry.recorded.same_tensors.clear();
}

struct VersionOfRecording {
  std::shared_ptr<Entry> entry;
  bool is_compiled = true;  ///< else it serves this call only
};

// The version of a recording: an equal one, or a new one.
VersionOfRecording version_of(Site& site, const Leaves& leaves, Recording recording) {
  std::lock_guard lock(site.changing);
  site.memory.join(recording.given);
  if (Entry* known = equal_version(site, recording, leaves)) {
    if (known->replays()) known->add_course(std::move(recording));
    return {site.versions.shared(*known)};
  }
  std::string id = message("{}/{}", site.number, site.attempts.load());

  // What the recording took for granted is checked before each later call.
  auto entry = std::make_shared<Entry>(std::move(id), std::move(recording), leaves);
  entry->constants = constants_of_version();

  // Differentiate, remove mutation, decompose, cut in two, and let the backend turn that into code
  // (compile_graph.cpp).
  if (!compile_code(site, *entry)) return {std::move(entry), false};
  log_recording(entry->id, entry->recorded);
  tell_unit(site, *entry);

  // Later calls bring the captured tensors and requests to the tape themselves.
  if (entry->path && !site.skips_bodies()) take_slots(*entry);
  if (!site.skips_bodies()) entry->recorded.requests = {};

  // From here on the entry serves.
  ++site.attempts;
  site.versions.add(entry);
  return {std::move(entry)};
}

}  // namespace

void serve_recording(Site& site, Recording recording, const Leaves& leaves, CallResult& result) {
  RulesOfRecording rules{recording.shape_env};
  if (!keeps_marks(site, recording)) {
    note_eager_call(site, Eager::suppressed_error);
    return finish_call(site, std::move(recording), leaves, result, CodeOf::interpreter);
  }
  bool has_run = recording.has_graph_breaks();
  if (has_run) note_segments(site, recording);
  if (has_run) give_results(recording, result);
  std::vector<Tensor> slots = recording.captured();
  std::vector<int64_t> numbers = recording.given.words;
  autograd::TapeRequests requests = recording.requests;
  std::vector<LogCall> log_calls = recording.log_calls;
  auto [entry, is_compiled] = version_of(site, leaves, std::move(recording));
  if (auto* watch = report::CompileWatch::current(); watch && is_compiled) {
    note_sizes(watch->record(), site, *entry);
    watch->finish(entry->replays() ? "replays" : "compiled");
  }
  if (has_run) return;
  if (!is_compiled) note_eager_call(site, Eager::suppressed_error);
  autograd::RequestsOfCall brings(requests);
  entry->run({leaves, slots, numbers, &log_calls}, result);
}

namespace {

/// The options of compile() count, over them what an override says.
struct FlagsOfMiss {
  config::OptionScope options, overrides;
  explicit FlagsOfMiss(const Site& site)
      : options(site.flags), overrides(flag_override(site.number)) {}
};

void serve_miss(Site& site, const Leaves& leaves, const Body& body, CallResult& result) {
  if (is_given_up(site)) return run_eagerly(site, body);
  std::optional<FlagsOfMiss> flags;

  // Limits and flags decide whether it is worth a version of its own (limits.cpp).
  Miss then = Miss::look_again;
  while (then == Miss::look_again) {
    flags.emplace(site);
    then = what_to_do(site, leaves, [&] { return has_version_for(site, leaves); });
    if (then != Miss::look_again) break;
    flags.reset();
    if (serve_by_version(site, leaves, body, result)) return;
  }
  if (then == Miss::replay) return replay_body(site, leaves, body, result);
  if (then == Miss::eager) return run_eagerly(site, body);
  const auto constants = std::make_shared<Constants>();
  report::CompileWatch watch(message("{}/{}", site.number, site.attempts.load()),
                             display_name(site));
  ConstantsScope scope(&constants);

  // Run the callable once on fake tensors; each operation becomes a node, each assumption a guard.
  ModesOfCall modes;
  Recording recording = record_body(site, leaves, body, modes);
  note_recording(site, recording);

  // Lower, cut, compile, run; what was compiled serves later calls.
  serve_recording(site, std::move(recording), leaves, result);
}

// Errors of recording may be hidden (limits.cpp).
void on_miss(Site& site, const Leaves& leaves, const Body& body, CallResult& result) {
  serve_or_run_eagerly(site, body, [&] { serve_miss(site, leaves, body, result); });
}

const struct FillSlots {
  FillSlots() { miss_slot = &on_miss; }
} fill_slots;

}  // namespace

}  // namespace tenon
