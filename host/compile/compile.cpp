// READ FIRST: how a call that nothing serves yet becomes compiled code.
//
//   call ──guards hold?──▶ run the entry (runtime/call.cpp)
//     └── miss ──▶ trace ──▶ guards ──▶ lower ──▶ partition ──▶ backend ──▶ entry
//
// A body with graph breaks goes the same way segment by segment (segments.cpp): each is compiled
// when its like was not seen before, and the body runs again on every call (replay.cpp).
#include "capture/watch_symbols.h"
#include "compile/replay.h"
#include "compile/site_settings.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "report/compile_record.h"
#include "report/log.h"
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

void check_symbols(const Recording& recording) {
  if (!config::flags().dynamo.allow_ignore_mark_dynamic) recording.shape_env->check_constraints();
  log_specializations(*recording.shape_env);
}

void compile_code(Site& site, Entry& entry) {
  Recording& recorded = entry.recorded;
  if (!recorded.graph) return;
  // A graph with a backward of its own: nothing of it goes on the tape.
  EnableGradGuard mode(thread_modes.grad_enabled && !recorded.has_backward);
  entry.artifact = compile_for(site, recorded.graph);
  exclude_older(site, entry);
  // What the backend took for granted about sizes is checked like the rest.
  recorded.guards.add_backend_conditions(backend_of(site), *recorded.shape_env,
                                         entry.artifact->guards);
}

void note_sizes(report::CompileRecord& record, const Site& site, const Entry& entry) {
  const GuardSet& guards = entry.recorded.guards;
  record.n_ops = entry.recorded.graph ? entry.recorded.graph->nodes().size() : 0;
  record.n_guards = guards.tensors.size() + guards.condition_texts.size();
  record.n_symbols = guards.loads.size();
  record.n_entries = site.n_entries.load();
}

// The new entry of the site, or null for a body with graph breaks, which has run by then.
Entry* compile_entry(Site& site, const Leaves& leaves, const Body& body, CallResult& result) {
  std::string id = message("{}/{}", site.number, site.attempts);
  report::CompileWatch watch(id, display_name(site));

  // Run the callable once on fake tensors; each operation becomes a node, each assumption a guard.
  Recording recording = record_body(site, leaves, body);
  RulesOfRecording rules{recording.shape_env};
  check_symbols(recording);
  site.graph_breaks += recording.n_graph_breaks;
  bool has_run = recording.has_graph_breaks();
  if (has_run) give_results(recording, result);

  // What the recording took for granted is checked before each later call.
  auto entry = std::make_unique<Entry>(std::move(id), std::move(recording), leaves);

  // Differentiate, remove mutation, decompose, cut in two, and let the backend turn that into code
  // (compile_graph.cpp).
  compile_code(site, *entry);
  if (report::artifact_enabled("guards"))
    report::log_artifact("guards", entry->recorded.guards.to_text());

  // From here on the entry serves.
  Entry* added = entry.get();
  ++site.attempts;
  site.add(std::move(entry));
  note_sizes(watch.record(), site, *added);
  watch.finish(added->replays() ? "replays" : "compiled");
  return has_run ? nullptr : added;
}

void on_miss(Site& site, const Leaves& leaves, const Body& body, CallResult& result) {
  std::unique_lock lock(site.changing);
  // Another thread may have compiled it meanwhile.
  if (Entry* entry = site.find(leaves)) {
    lock.unlock();
    return entry->run(leaves, result);
  }

  // The options of compile() count from here on, over them what an override says.
  config::OptionScope options(site.flags), overrides(flag_override(site.number));

  // Limits and flags decide whether it is worth a version of its own (limits.cpp).
  Miss then = what_to_do(site, leaves);
  if (then == Miss::replay) return replay_body(site, leaves, body, result);
  Entry* added = nullptr;
  auto compile = [&] { added = compile_entry(site, leaves, body, result); };
  if (then == Miss::compile && compile_or_suppress(site, compile)) {
    lock.unlock();
    if (added) added->run(leaves, result);
    return;
  }
  ++site.eager_calls;
  lock.unlock();
  body.run_eager(body.context);
}

const struct FillSlots {
  FillSlots() { miss_slot = &on_miss; }
} fill_slots;

}  // namespace

}  // namespace tenon
