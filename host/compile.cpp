// READ FIRST: how a call that nothing serves yet becomes compiled code.
//
//   call ──guards hold?──▶ run the entry (runtime/call.cpp)
//     └── miss ──▶ trace ──▶ guards ──▶ lower ──▶ backend ──▶ entry
//
// A body that is cut by a look at data goes the same way piece by piece: each segment is compiled
// when its like was not seen before, and the body runs again on every call.
#include "compile.h"

#include "aot/lower.h"
#include "capture/trace.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/shape_env.h"
#include "core/sym_expr.h"
#include "graph/hash.h"
#include "graph/print.h"
#include "ops/op_table.h"
#include "report/log.h"
#include "runtime/call.h"

#include <tenon/config.h>

#include <algorithm>
#include <optional>

namespace tenon {

using detail::Body;
using detail::CallResult;
using detail::Leaves;
using detail::Site;

std::string default_backend() {
  for (const BackendInfo& b : all_backends())
    if (b.name == "inductor") return b.name;
  return "aot_eager";
}

std::string options_toml(const std::map<std::string, std::string>& options) {
  std::string text;
  for (const auto& [key, value] : options) text += key + " = " + value + "\n";
  return text;
}

static LowerOptions lowering_for(const BackendInfo& backend) {
  LowerOptions lower;
  lower.decomposes = decomposition_set(backend.decompositions, backend.decomposition_ops);
  lower.keep_input_mutations = backend.keep_inference_input_mutations;
  return lower;
}

std::shared_ptr<Graph> graph_for_backend(const std::shared_ptr<Graph>& graph,
                                         const std::string& name) {
  BackendInfo backend = backend_info(name);
  if (backend.stage == Stage::captured) return graph;
  return lower_inference(*graph, lowering_for(backend)).graph;
}

std::shared_ptr<Artifact> compile_graph(const std::shared_ptr<Graph>& graph,
                                        const CompileGraphOptions& options) {
  std::string name = options.backend.empty() ? default_backend() : options.backend;
  BackendInfo backend = backend_info(name);
  CompileRequest request;
  request.mode = options.mode;
  request.options_toml = options.options_toml;
  request.compile_id = options.compile_id;
  request.dynamic = options.dynamic;
  request.grad_enabled = thread_modes.grad_enabled;

  // A backend of stage "captured" gets the graph as it was recorded.
  if (backend.stage == Stage::captured) {
    request.graph = graph;
    return compile_with_backend(name, request);
  }

  // The others get a graph without mutation, with the ops taken apart that their manifest names.
  LoweredInference lowered = lower_inference(*graph, lowering_for(backend));

  // The plugin turns it into code, and the wrapper puts effects and aliases right around it.
  request.stage = Stage::inference;
  request.graph = lowered.graph;
  request.mutated_inputs = lowered.mutated_inputs;
  std::shared_ptr<Artifact> inner = compile_with_backend(name, request);
  return wrap_inference(std::move(lowered), std::move(inner));
}

namespace {

std::string display_name(const Site& site) {
  return site.options.name.empty() ? message("number {}", site.number) : site.options.name;
}

std::string backend_of(const Site& site) {
  return site.options.backend.empty() ? default_backend() : site.options.backend;
}

CompileGraphOptions graph_options(Site& site, bool dynamic) {
  CompileGraphOptions o;
  o.backend = site.options.backend;
  o.mode = site.options.mode;
  o.options_toml = options_toml(site.options.options);
  o.compile_id = message("{}/{}", site.number, site.attempts);
  o.dynamic = dynamic;
  return o;
}

bool is_symbolic(const Graph& graph) { return !graph.symbols.empty(); }

// ---- which sizes are symbolic

DimPolicy policy_of(const Site& site, const DynamicMemory::Cell& cell, const TensorExtra* marks,
                    size_t dim) {
  uint64_t bit = uint64_t{1} << dim;
  if (marks && (marks->static_dims & bit)) return DimPolicy::fixed;
  if (marks && (marks->dynamic_dims & bit)) return DimPolicy::own;
  const config::Flags& flags = config::flags();
  if (!flags.dynamo.dynamic_shapes || site.options.dynamic == false) return DimPolicy::fixed;
  if (site.options.dynamic == true || !flags.dynamo.assume_static_by_default)
    return DimPolicy::duck;
  if (!flags.dynamo.automatic_dynamic_shapes) return DimPolicy::fixed;
  return cell.state == DynamicMemory::Cell::State::dynamic ? DimPolicy::duck : DimPolicy::fixed;
}

TracePolicy trace_policy(Site& site, const Leaves& leaves) {
  site.memory.join(leaves);
  TracePolicy policy;
  policy.fullgraph = site.options.fullgraph;
  policy.specialize_one = config::flags().shapes.specialize_one;
  for (size_t i = 0; i < leaves.tensors.size(); ++i) {
    auto& sizes = policy.sizes.emplace_back();
    auto& strides = policy.strides.emplace_back();
    if (!leaves.tensors[i]->defined()) continue;
    const DynamicMemory::TensorCells& cells = site.memory.tensors[i];
    const TensorExtra* marks = impl_of(*leaves.tensors[i])->extra.get();
    bool all_sizes_fixed = true;
    for (size_t d = 0; d < cells.sizes.size(); ++d) {
      sizes.push_back(policy_of(site, cells.sizes[d], marks, d));
      all_sizes_fixed = all_sizes_fixed && sizes.back() == DimPolicy::fixed;
    }
    for (size_t d = 0; d < cells.strides.size(); ++d) {
      bool moved = cells.strides[d].state == DynamicMemory::Cell::State::dynamic;
      strides.push_back(moved && all_sizes_fixed && site.options.dynamic != false
                            ? DimPolicy::duck
                            : DimPolicy::fixed);
    }
  }
  for (size_t i = 0; i < leaves.numbers.size(); ++i) {
    bool is_int = leaves.numbers[i].is_integer();
    const config::Flags& flags = config::flags();
    bool special = is_int ? flags.dynamo.specialize_int : flags.dynamo.specialize_float;
    bool moved = site.memory.numbers[i].state == DynamicMemory::Cell::State::dynamic;
    policy.numbers.push_back(!special && site.options.dynamic != false &&
                             (moved || site.options.dynamic == true));
  }
  return policy;
}

// ---- segments of bodies that are cut

// Code holds for the sizes that the backend asked for and those that the recording before the
// segment had decided on, which lowering relies on. Nothing when that cannot be told from the
// segment's own symbols.
std::optional<SymProgram> segment_conditions(const Graph& graph, const Artifact& artifact) {
  std::vector<const Expr*> symbols, conditions = artifact.guards;
  for (const SymbolBinding& b : graph.symbols) symbols.push_back(b.symbol);
  auto is_own = [&](const Expr* s) { return std::ranges::find(symbols, s) != symbols.end(); };
  for (const RecordedGuard& guard : graph.shape_env->guard_conditions()) {
    std::vector<const Expr*> used = free_symbols(guard.condition);
    if (std::ranges::none_of(used, is_own)) continue;
    if (!std::ranges::all_of(used, is_own)) return std::nullopt;
    conditions.push_back(guard.condition);
  }
  return SymProgram::compile(symbols, conditions);
}

// One structure may have several versions, of which those that served longest ago go.
std::shared_ptr<Artifact> segment_code(Site& site, const std::shared_ptr<Graph>& graph,
                                       std::span<const int64_t> syms) {
  std::vector<SegmentCode>& known = site.segments[structural_hash(*graph)];
  auto serves = [&](const SegmentCode& code) {
    return structurally_equal(*code.graph, *graph) && code.conditions.check(syms);
  };
  auto found = std::find_if(known.begin(), known.end(), serves);
  if (found != known.end()) {
    std::rotate(known.begin(), found, found + 1);
    return known.front().artifact;
  }
  std::shared_ptr<Artifact> made = compile_graph(graph, graph_options(site, is_symbolic(*graph)));
  ++site.compiles;
  auto conditions = segment_conditions(*graph, *made);
  if (!conditions) return made;
  known.insert(known.begin(), {graph, made, std::move(*conditions)});
  constexpr size_t most_versions = 16;
  if (known.size() > most_versions) known.pop_back();
  return made;
}

SegmentRunner segment_runner(Site& site) {
  return [&site](const std::shared_ptr<Graph>& graph, std::span<detail::TensorHead*> inputs,
                 std::span<const int64_t> syms, std::span<Tensor> outputs) {
    segment_code(site, graph, syms)->call(inputs, syms, outputs);
  };
}

void give_outputs(Trace& trace, CallResult& result) {
  result.tensors = std::move(trace.outputs);
  result.numbers = trace.output_numbers;
  result.owner = trace.prototype;
  result.prototype = trace.prototype.get();
}

// ---- limits

// True when no further version may be made; then the body runs eagerly.
bool at_limit(Site& site, const std::string& reason) {
  if (site.run_only) return true;
  const config::Flags& flags = config::flags();
  auto n = static_cast<int64_t>(site.n_entries.load());
  bool over = n >= flags.dynamo.recompile_limit;
  bool accumulated = site.attempts >= flags.dynamo.accumulated_recompile_limit;
  if (!over && !accumulated) return false;
  std::string text = message(
      "{} was compiled {} times, the limit dynamo.{} is {}; last reason: {}; mark sizes dynamic, "
      "or raise the limit",
      "callable " + display_name(site), n, over ? "recompile_limit" : "accumulated_recompile_limit",
      over ? flags.dynamo.recompile_limit : flags.dynamo.accumulated_recompile_limit, reason);
  require(!flags.dynamo.fail_on_recompile_limit_hit && !site.options.fullgraph,
          ErrorCode::recompile_limit, "{}", text);
  if (!std::exchange(site.limit_reported, true))
    report::log_line(report::LogLevel::warning, "runtime", text);
  site.run_only = true;
  return true;
}

void note_recompile(Site& site, const Leaves& leaves, std::string& reason) {
  uint32_t n = site.n_entries.load();
  if (n == 0) return;
  for (uint32_t i = 0; i < n; ++i) {
    const Entry& entry = *site.order[i].load();
    reason += (i ? "; " : "") + message("{}: {}", entry.id, entry.why_not(leaves));
  }
  site.recompile_reasons.push_back(reason);
  report::log_line(report::LogLevel::debug, "guards", "recompiling: " + reason);
  require(!config::flags().dynamo.error_on_recompile, ErrorCode::recompile,
          "a recompile is needed: {}", reason);
}

// ---- entries

bool has_writes(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return entry_of(node.op).mutated_args != 0; });
}

std::unique_ptr<Entry> make_entry(Site& site, Trace& trace, const Leaves& leaves) {
  auto entry = std::make_unique<Entry>();
  entry->id = message("{}/{}", site.number, site.attempts);
  entry->guards = std::move(trace.guards);
  entry->replays = !trace.open_reason().empty();
  entry->replay_reason = trace.open_reason();
  entry->implicit = trace.implicit;
  for (const ImplicitInput& in : trace.implicit) {
    const detail::TensorHead* h = in.tensor.head();
    entry->implicit_guards.push_back({h->dtype,
                                      h->device_type,
                                      h->device_index,
                                      h->ndim,
                                      in.tensor.requires_grad(),
                                      true,
                                      0,
                                      0,
                                      {h->sizes, h->sizes + h->ndim},
                                      {h->strides, h->strides + h->ndim}});
  }
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
    if (!s.unbacked) symbols.push_back(s.expr);
  for (Number n : trace.output_numbers)
    if (n.is_symbolic())
      exprs.push_back(n.is_integer() ? as_expr(n.sym_int()) : as_expr(n.sym_float()));
  entry->output_program = SymProgram::compile(symbols, {}, exprs);
  if (!trace.graph) return entry;
  entry->n_graph_outputs = trace.graph->outputs().size();
  entry->writes_inputs = has_writes(*trace.graph);
  if (entry->writes_inputs) entry->recorded_overlaps = entry->overlaps(leaves);
  entry->artifact = compile_graph(trace.graph, graph_options(site, is_symbolic(*trace.graph)));
  ++site.compiles;
  // What the backend took for granted about sizes is checked like the rest.
  entry->guards.add_backend_conditions(backend_of(site), *trace.shape_env, symbols,
                                       entry->artifact->guards);
  return entry;
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
  std::string reason;
  note_recompile(site, leaves, reason);
  if (at_limit(site, reason)) {
    ++site.eager_calls;
    lock.unlock();
    return body.run_eager(body.context);
  }

  // Run the callable once on fakes: each op becomes a node, each assumption a guard.
  TracePolicy policy = trace_policy(site, leaves);
  Trace trace(leaves, policy, segment_runner(site));
  trace.run(body);
  trace.shape_env->check_constraints();

  // Lower the graph and compile it; a body that was cut has run by now, piece by piece.
  bool was_cut = trace.was_cut();
  site.graph_breaks += trace.n_cuts();
  std::unique_ptr<Entry> entry = make_entry(site, trace, leaves);
  Entry* added = entry.get();
  ++site.attempts;
  site.add(std::move(entry));
  lock.unlock();
  if (was_cut) return give_outputs(trace, result);
  added->run(leaves, result);
}

void on_replay(Site& site, Entry&, const Leaves& leaves, const Body& body, CallResult& result) {
  std::lock_guard lock(site.changing);
  ++site.replays;
  Trace trace(leaves, trace_policy(site, leaves), segment_runner(site));
  trace.run(body);
  if (trace.was_cut()) return give_outputs(trace, result);
  // This time the body looked at no data: run its one graph.
  std::unique_ptr<Entry> once = make_entry(site, trace, leaves);
  once->run(leaves, result);
  result.owner = trace.prototype;
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

// What a hit takes for granted is looked at again now and then: the body is recorded anew, and its
// graph and plain results must be those of the entry. The answer of this call comes from the new
// recording either way.
bool verify(Site& site, Entry& entry, const Leaves& leaves, const Body& body, CallResult& result) {
  uint32_t hit = entry.hits.load(std::memory_order_relaxed) + 1;
  bool replay = site.replay_for_good.load(std::memory_order_relaxed);
  if (!replay) {
    if (hit > 4096)
      return false;  // long since verified; retrace_check counts in 4096s from here on
    entry.hits.store(hit, std::memory_order_relaxed);
    if (!is_verification(hit)) return false;
  }
  std::lock_guard lock(site.changing);
  ++site.replays;
  TracePolicy policy = trace_policy(site, leaves);
  Trace trace(leaves, policy, segment_runner(site));
  trace.run(body);
  bool same = !trace.was_cut() && same_graph(entry, trace) && same_plain_outputs(entry, trace);
  if (same && !replay) return false;
  if (!replay) {
    site.replay_for_good = true;
    std::string text = message(
        "callable {} did something else than when it was recorded, with equal arguments: it reads "
        "a "
        "value that is no argument; pass it as one. From now on the body runs on every call",
        display_name(site));
    require(config::flags().capture.on_stale != "error", ErrorCode::capture_divergence, "{}", text);
    report::log_line(report::LogLevel::warning, "capture", text);
  }
  if (trace.was_cut()) {
    give_outputs(trace, result);
  } else {
    std::unique_ptr<Entry> once = make_entry(site, trace, leaves);
    once->run(leaves, result);
    result.owner = trace.prototype;
  }
  return true;
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
