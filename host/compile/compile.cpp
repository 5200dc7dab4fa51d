// READ FIRST: how a call that nothing serves yet becomes compiled code.
//
//   call ──guards hold?──▶ run the entry (runtime/call.cpp)
//     └── miss ──▶ trace ──▶ guards ──▶ lower ──▶ backend ──▶ entry
//
// A body that is cut by a look at data goes the same way piece by piece: each segment is compiled
// when its like was not seen before, and the body runs again on every call.
#include "compile/compile_graph.h"

#include "aot/backward_autocast.h"
#include "capture/trace.h"
#include "capture/watch_symbols.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/sym/shape_env.h"
#include "core/sym/sym_expr.h"
#include "graph/hash.h"
#include "graph/passes/passes.h"
#include "graph/text/print.h"
#include "ops/op_table.h"
#include "report/compile_record.h"
#include "report/log.h"
#include "runtime/call.h"
#include "runtime/limits.h"
#include "runtime/overrides.h"
#include "runtime/repro.h"
#include "runtime/segments.h"
#include "runtime/size_policy.h"

#include <tenon/autograd.h>
#include <tenon/config.h>

#include <algorithm>
#include <optional>

namespace tenon {

using detail::Body;
using detail::CallResult;
using detail::Leaves;
using detail::Site;

std::string default_backend() {
  const std::string& wanted = config::flags().compiler.default_backend;
  for (const BackendInfo& b : all_backends())
    if (b.name == wanted) return b.name;
  return wanted == "inductor" ? "aot_eager" : wanted;
}

// Those with a point in their name are flags.
std::string options_toml(const std::map<std::string, std::string>& options) {
  std::string text;
  for (const auto& [key, value] : options)
    if (key.find('.') == std::string::npos) text += key + " = " + value + "\n";
  return text;
}

namespace {

std::string backend_of(const Site& site) {
  if (std::optional<std::string> other = backend_override(site.number)) return *other;
  return site.options.backend.empty() ? default_backend() : site.options.backend;
}

CompileGraphOptions graph_options(Site& site, bool dynamic) {
  CompileGraphOptions o;
  o.backend = backend_of(site);
  o.mode = site.options.mode;
  o.options_toml = options_toml(site.options.options);
  o.compile_id = message("{}/{}", site.number, site.attempts);
  o.dynamic = dynamic;
  return o;
}

// By the manifest; looked up once for each backend of the site.
bool backend_takes_symbols(Site& site) {
  std::string backend = backend_of(site);
  if (!site.takes_symbols || site.takes_symbols->first != backend)
    site.takes_symbols = {backend, backend_info(backend).dynamic_shapes};
  return site.takes_symbols->second;
}

TracePolicy policy_of(Site& site, const Leaves& leaves) {
  TracePolicy policy = trace_policy(site, leaves, backend_takes_symbols(site));
  policy.on_tape = site.calls_backward;
  policy.state = site.options.state;
  return policy;
}

bool is_symbolic(const Graph& graph) { return !graph.symbols.empty(); }

// A graph with fewer operations than dynamo.minimum_call_count is not worth a compilation.
bool is_too_small(const Graph& graph) {
  const config::DynamoFlags& flags = config::flags().dynamo;
  bool wanted_empty = graph.nodes().empty() && flags.allow_empty_graphs;
  return static_cast<int64_t>(graph.nodes().size()) < flags.minimum_call_count && !wanted_empty;
}

// The code of a recorded graph, which itself stays as it is, for comparing later recordings.
std::shared_ptr<Artifact> compile_captured(Site& site, const std::shared_ptr<Graph>& recorded) {
  if (report::artifact_enabled("graph")) report::log_artifact("graph", to_text(*recorded));
  if (is_too_small(*recorded)) return interpreter_artifact(recorded);
  std::shared_ptr<Graph> graph = recorded;
  if (config::flags().dynamo.dead_code_elimination) {
    graph = clone(*recorded);
    remove_dead_code(*graph, {.keep_random = true});
  }
  ++site.compiles;
  return compile_graph(graph, graph_options(site, is_symbolic(*graph)));
}

// ---- segments of bodies that are cut

// One structure may have several versions, of which those that served longest ago go.
std::shared_ptr<Artifact> segment_code(Site& site, const std::shared_ptr<Graph>& graph,
                                       std::span<const int64_t> syms) {
  std::vector<SegmentCode>& known = site.segments[structural_hash(*graph)];
  AutocastOptions autocast = autocast_in_effect();
  auto serves = [&](const SegmentCode& code) {
    return same_casts(code.autocast, autocast) && structurally_equal(*code.graph, *graph) &&
           code.conditions.check(syms);
  };
  auto found = std::find_if(known.begin(), known.end(), serves);
  if (found != known.end()) {
    std::rotate(known.begin(), found, found + 1);
    return known.front().artifact;
  }
  std::shared_ptr<Artifact> made = compile_captured(site, graph);
  auto conditions = segment_conditions(*graph, *made);
  if (!conditions) return made;
  known.insert(known.begin(), {graph, made, std::move(*conditions), autocast});
  constexpr size_t most_versions = 16;
  if (known.size() > most_versions) known.pop_back();
  return made;
}

SegmentRunner segment_runner(Site& site) {
  return [&site](const std::shared_ptr<Graph>& graph, std::span<detail::TensorHead*> inputs,
                 std::span<const int64_t> syms, std::span<Tensor> outputs) {
    std::vector<int64_t> words(syms.begin(), syms.end());
    std::shared_ptr<Artifact> code = segment_code(site, graph, syms);
    words.resize(graph->symbols.size());  // 0 for those that the code computes
    BelowAutocast casts_are_recorded;
    code->call(inputs, words, outputs);
  };
}

void give_outputs(Trace& trace, CallResult& result) {
  result.tensors = std::move(trace.outputs);
  result.numbers = trace.output_numbers;
  result.owner = trace.prototype;
  result.prototype = trace.prototype.get();
}

// ---- entries

bool has_writes(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return entry_of(node.op).mutated_args != 0; });
}

enum class Code : uint8_t { fresh, known };

// `known`: the code of an equal graph serves where there is one.
std::unique_ptr<Entry> make_entry(Site& site, Trace& trace, const Leaves& leaves, Code code) {
  auto entry = std::make_unique<Entry>();
  entry->id = message("{}/{}", site.number, site.attempts);
  entry->guards = std::move(trace.guards);
  entry->replays = !trace.open_reason().empty();
  entry->replay_reason = trace.open_reason();
  entry->implicit = trace.implicit;
  entry->modes = trace.modes;
  for (const ImplicitInput& in : trace.implicit)
    entry->implicit_guards.push_back(guard_of(in.tensor));
  entry->log_calls = trace.log_calls;
  entry->has_backward = trace.is_on_tape();
  entry->grad_effects = trace.grad_effects;
  entry->without_grad = trace.without_grad;
  entry->needs_history = trace.needs_history;
  entry->plain_outputs = trace.plain_outputs;
  entry->text_outputs = trace.text_outputs;
  if (entry->replays) {
    entry->implicit.clear();
    return entry;
  }
  entry->graph = trace.graph;
  entry->inputs = trace.graph_inputs;
  entry->outputs = trace.output_origins;
  entry->prototype = trace.prototype;
  entry->output_numbers = trace.output_numbers;
  std::vector<const Expr*> symbols, exprs;
  for (const SymbolInfo& s : trace.shape_env->symbols())
    if (s.is_from_input()) symbols.push_back(s.expr);
  entry->number_outputs = trace.number_outputs;
  entry->number_outputs.resize(entry->output_numbers.size(), -1);
  for (size_t i = 0; i < entry->output_numbers.size(); ++i)
    if (Number n = entry->output_numbers[i]; n.is_symbolic() && entry->number_outputs[i] < 0)
      exprs.push_back(n.is_integer() ? as_expr(n.sym_int()) : as_expr(n.sym_float()));
  entry->output_program = SymProgram::compile(symbols, {}, exprs);
  if (!trace.graph) return entry;
  // A graph with a backward of its own: nothing of it goes on the tape.
  EnableGradGuard mode(thread_modes.grad_enabled && !trace.is_on_tape());
  entry->n_graph_outputs = trace.graph->outputs().size();
  entry->writes_inputs = has_writes(*trace.graph);
  if (entry->writes_inputs) entry->recorded_overlaps = entry->overlaps(leaves);
  if (entry->writes_inputs && is_symbolic(*trace.graph)) check_shared_inputs(leaves);
  if (code == Code::known) {
    std::vector<int64_t> words(entry->guards.loads.size());
    entry->guards.load(leaves, words.data());
    entry->artifact = segment_code(site, trace.graph, words);
    return entry;
  }
  entry->artifact = compile_captured(site, trace.graph);
  exclude_older(site, *entry);
  // What the backend took for granted about sizes is checked like the rest.
  entry->guards.add_backend_conditions(backend_of(site), *trace.shape_env, symbols,
                                       entry->artifact->guards);
  return entry;
}

// Runs the body on fakes; nothing becomes an entry.
void replay_body(Site& site, const Leaves& leaves, const Body& body, CallResult& result) {
  ++site.replays;
  Trace trace(leaves, policy_of(site, leaves), segment_runner(site));
  trace.run(body);
  if (trace.was_cut()) return give_outputs(trace, result);
  // This time the body looked at no data: run its one graph.
  std::unique_ptr<Entry> once = make_entry(site, trace, leaves, Code::known);
  once->run(leaves, result);
  result.owner = trace.prototype;
}

void note_sizes(report::CompileRecord& record, const Site& site, const Entry& entry) {
  record.n_ops = entry.graph ? entry.graph->nodes().size() : 0;
  record.n_guards = entry.guards.tensors.size() + entry.guards.condition_texts.size();
  record.n_symbols = entry.guards.loads.size();
  record.n_entries = site.n_entries.load();
}

void trace_body(Trace& trace, const Body& body) {
  report::PhaseScope phase("trace");
  try {
    trace.run(body);
  } catch (const std::exception& error) {
    if (config::flags().dynamo.replay_record_enabled)
      write_execution_record(*trace.execution_record(),
                             report::CompileWatch::current()->record().id, error.what());
    throw;
  }
}

// The entry of a call that none serves, or null for a body that was cut and has run by now.
Entry* add_entry(Site& site, const Leaves& leaves, const Body& body, CallResult& result) {
  report::CompileWatch watch(message("{}/{}", site.number, site.attempts), display_name(site));

  // Run the callable once on fakes: each op becomes a node, each assumption a guard.
  Trace trace(leaves, policy_of(site, leaves), segment_runner(site));
  trace_body(trace, body);
  if (!config::flags().dynamo.allow_ignore_mark_dynamic) trace.shape_env->check_constraints();
  log_specializations(*trace.shape_env);

  // Lower the graph and compile it; a body that was cut has run by now, piece by piece.
  site.graph_breaks += trace.n_cuts();
  std::unique_ptr<Entry> entry = make_entry(site, trace, leaves, Code::fresh);
  if (report::artifact_enabled("guards")) report::log_artifact("guards", entry->guards.to_text());
  Entry* added = entry.get();
  ++site.attempts;
  site.add(std::move(entry));
  note_sizes(watch.record(), site, *added);
  watch.finish(added->replays ? "replays" : "compiled");
  if (!trace.was_cut()) return added;
  give_outputs(trace, result);
  return nullptr;
}

// A body that turns out to call backward() is recorded once more, through the tape.
template <class Record>
auto recorded(Site& site, Record record) {
  try {
    return record();
  } catch (const WantsTape&) {
    site.calls_backward = true;
    return record();
  }
}

void on_miss(Site& site, const Leaves& leaves, const Body& body, CallResult& result) {
  std::unique_lock lock(site.changing);
  // Another thread may have compiled it meanwhile.
  for (uint32_t i = 0; i < site.n_entries.load(); ++i) {
    Entry* entry = site.order[i].load();
    if (entry->replays || !entry->serves(leaves)) continue;
    lock.unlock();
    return entry->run(leaves, result);
  }
  // The options of compile() count from here on, over them what an override says.
  config::OptionScope options(site.flags), overrides(flag_override(site.number));
  check_flag_conflicts();
  auto run_eagerly = [&] {
    ++site.eager_calls;
    lock.unlock();
    body.run_eager(body.context);
  };
  if (config::flags().dynamo.disable) return run_eagerly();
  auto replay = [&] { return replay_body(site, leaves, body, result); };
  if (config::flags().capture.mode == "replay") return recorded(site, replay);
  switch (what_to_do(site, note_recompile(site, leaves))) {
    case Miss::eager:
      return run_eagerly();
    case Miss::replay:
      return recorded(site, replay);
    case Miss::compile:
      break;
  }
  int64_t breaks = site.graph_breaks, replays = site.replays;
  Entry* added = nullptr;
  try {
    added = recorded(site, [&] { return add_entry(site, leaves, body, result); });
  } catch (const Error& error) {
    // What has run in pieces must not run once more.
    bool untouched = breaks == site.graph_breaks && replays == site.replays;
    if (!untouched || !suppress_error(site, error)) throw;
    return run_eagerly();
  }
  lock.unlock();
  if (added) added->run(leaves, result);
}

void on_replay(Site& site, Entry&, const Leaves& leaves, const Body& body, CallResult& result) {
  std::lock_guard lock(site.changing);
  config::OptionScope options(site.flags);
  recorded(site, [&] { replay_body(site, leaves, body, result); });
}

bool same_plain_outputs(const Entry& entry, const Trace& trace) {
  return entry.plain_outputs == trace.plain_outputs && entry.text_outputs == trace.text_outputs;
}

bool same_graph(const Entry& entry, const Trace& trace) {
  if (!entry.graph || !trace.graph) return !entry.graph && !trace.graph;
  return structurally_equal(*entry.graph, *trace.graph);
}

bool is_verification(uint32_t hit) {
  const config::Flags& flags = config::flags();
  if (flags.capture.mode == "hit") return false;
  bool power_of_four = hit && !(hit & (hit - 1)) && (hit & 0x55555555u);
  return power_of_four ||
         (flags.capture.retrace_check > 0 && hit % flags.capture.retrace_check == 0);
}

// Different symbols of the entry have one value here, so that a new recording shares a symbol
// between them: its graph says nothing about the entry's.
bool symbols_coincide(const Entry& entry, const Leaves& leaves) {
  std::vector<int64_t> words(entry.guards.loads.size());
  entry.guards.load(leaves, words.data());
  std::ranges::sort(words);
  return std::ranges::adjacent_find(words) != words.end();
}

void report_stale(Site& site) {
  site.replay_for_good = true;
  std::string text = message(
      "callable {} did something else than when it was recorded, with equal arguments: it reads a "
      "value that is not an argument; pass it as one. From now on the body runs on every call",
      display_name(site));
  require(config::flags().capture.on_stale != "error", ErrorCode::capture_divergence, "{}", text);
  report::log_line(report::LogLevel::warning, "capture", text);
}

// False when a new recording gives the entry's graph: its code may run.
bool compare_with_new_recording(Site& site, const Entry& entry, const Leaves& leaves,
                                const Body& body, CallResult& result) {
  ++site.replays;
  Trace trace(leaves, policy_of(site, leaves), segment_runner(site));
  trace.run(body);
  bool same = !trace.was_cut() && same_graph(entry, trace) && same_plain_outputs(entry, trace);
  if (same) return false;
  if (!site.replay_for_good) report_stale(site);
  if (trace.was_cut()) {
    give_outputs(trace, result);
    return true;
  }
  std::unique_ptr<Entry> once = make_entry(site, trace, leaves, Code::known);
  once->run(leaves, result);
  result.owner = trace.prototype;
  return true;
}

// What a hit takes for granted is looked at again now and then: the body is recorded anew, and its
// graph and plain results must be those of the entry. The answer of this call comes from the new
// recording either way.
bool verify(Site& site, Entry& entry, const Leaves& leaves, const Body& body, CallResult& result) {
  uint32_t hit = entry.hits.load(std::memory_order_relaxed) + 1;
  if (!site.replay_for_good.load(std::memory_order_relaxed)) {
    if (hit > 4096)
      return false;  // long since verified; retrace_check counts in 4096s from here on
    entry.hits.store(hit, std::memory_order_relaxed);
    if (!is_verification(hit) || symbols_coincide(entry, leaves)) return false;
  }
  std::lock_guard lock(site.changing);
  config::OptionScope options(site.flags);
  return recorded(site,
                  [&] { return compare_with_new_recording(site, entry, leaves, body, result); });
}

const struct FillSlots {
  FillSlots() {
    miss_slot = &on_miss;
    replay_slot = &on_replay;
    verify_slot = &verify;
  }
} fill_slots;

}  // namespace

namespace detail {

std::string explain_site(const Site& s) {
  auto& site = const_cast<Site&>(s);
  std::lock_guard lock(site.changing);
  std::string out =
      message("callable {} with backend {}: {} versions, {} compiles\n", display_name(site),
              backend_of(site), site.n_entries.load(), site.compiles.load());
  for (uint32_t i = 0; i < site.n_entries.load(); ++i) {
    const Entry& e = *site.order[i].load();
    out += message(
        "version {}: {}\n", e.id,
        e.replays ? "the body runs on every call: " + e.replay_reason : "the code runs alone");
    out += e.guards.to_text();
    if (e.graph) out += to_text(*e.graph);
  }
  for (const std::string& reason : site.recompile_reasons)
    out += "recompiled because " + reason + "\n";
  return out;
}

}  // namespace detail

}  // namespace tenon
