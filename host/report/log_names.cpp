// The tables of log names, and texts about them.
#include "report/log_names.h"

#include "core/error.h"

#include <algorithm>
#include <set>

namespace tenon::report {

namespace {

constexpr LogComponent components[] = {
    {"aot", "aot", "lowering, joint graphs"},
    {"backend", "backend", "plugins: found, loaded, shut down, what they decline"},
    {"cache", "cache", "the cache on disk"},
    {"capture", "capture", "recording of bodies"},
    {"compiled_autograd", "compiled_autograd", "backward passes that become programs"},
    {"config", "config", "flags"},
    {"dynamic", "dynamic", "symbolic sizes"},
    {"dynamo", "capture guards runtime", "all of capture: recording, guards, calls"},
    {"guards", "guards", "why compiled code does not serve a call"},
    {"inductor", "plugin.inductor", "the backend inductor"},
    {"ops", "ops", "operations of programs and plugins"},
    {"partition", "partition", "what is saved and what is recomputed"},
    {"plugins", "plugin.", "lines that plugins write; `plugin.NAME`: those of one component"},
    {"report", "report", "log files and dumps"},
    {"runtime", "runtime", "calls, limits, checks of numbers"},
};

constexpr LogArtifact artifacts[] = {
    {"aot_graphs", "aot", "each graph, or half of one, as a backend is asked for it"},
    {"aot_joint_graph", "aot", "graphs with their gradients, before they are cut in two"},
    {"autotuning", "", "which way of a product or convolution inductor.max_autotune chose"},
    {"benchmarking", "", "what each of these ways took"},
    {"caching", "", "hits, misses and bypasses of the cache of graphs, with the reason"},
    {"compiled_autograd", "compiled_autograd", "graphs of backward passes"},
    {"compiled_autograd_verbose", "", "the nodes and conditions of backward passes"},
    {"cudagraph_static_inputs", "",
     "inputs that a recording of a GPU takes to stay where they are"},
    {"cudagraphs", "", "recordings of a GPU: made, run again, made anew and why, skipped"},
    {"fusion", "", "pairs of loops that became one kernel, and why others did not"},
    {"graph", "dynamo", "each captured graph, as a table of its operations"},
    {"graph_breaks", "dynamo", "where a body looks at data, and how"},
    {"graph_code", "dynamo", "each captured graph as text that `tenon run` takes"},
    {"graph_sizes", "dynamo", "the sizes of every value of captured graphs"},
    {"guards", "dynamo", "the conditions under which compiled code serves a call"},
    {"inductor_metrics", "", "what a backend counted while compiling, as JSON"},
    {"ir_post_fusion", "", "loops after fusion"},
    {"ir_pre_fusion", "", "loops before fusion"},
    {"kernel_code", "", "the machine code of each kernel"},
    {"loop_ordering", "", "the order of each kernel's loops, and which of them is vectorised"},
    {"metrics", "", "times, sizes and outcome of each compilation, as JSON"},
    {"output_code", "", "what runs on each call, with the plan of its memory"},
    {"perf_hints", "", "what is slower than it could be: work left to the host, no backward graph"},
    {"post_grad_graphs", "inductor", "the graph of each region that a plugin compiles"},
    {"pre_grad_graphs", "inductor", "graphs before they are lowered or differentiated"},
    {"recompiles", "dynamo", "why a call needs another version: the first condition that fails"},
    {"recompiles_verbose", "", "the same with every condition that fails, a line each"},
    {"schedule", "", "the kernels and calls of a compiled graph in their order"},
    {"side_effects", "dynamo", "what a body leaves behind besides its results"},
    {"summary", "", "at exit: callables at a limit, with breaks, eager calls, hidden errors"},
    {"trace_call", "dynamo", "each operation as it is recorded"},
    {"trace_shape_events", "", "symbols of a recording, and conditions on them in their order"},
    {"trace_source", "dynamo", "where in the program each recorded operation is called"},
    {"verbose_guards", "", "guards, and where in the program each condition comes from"},
};

constexpr RefusedLog refused[] = {
    {"annotation", "graph_code", "graphs have no annotations"},
    {"aot_graphs_effects", "side_effects",
     "graphs have no tokens: what has effects keeps its place"},
    {"async_compile", "kernel_code",
     "kernels are compiled on threads of the call, without a queue"},
    {"auto_chunker", "schedule", "no pass divides batches"},
    {"autograd", "compiled_autograd", "the engine of eager code writes no lines"},
    {"bytecode", "graph_code", "C++ has no bytecode"},
    {"c10d", "all", "there is no distributed training"},
    {"compute_dependencies", "schedule", "dependencies are those of the printed loops"},
    {"custom_format_test_artifact", "graph", "a test of PyTorch's own"},
    {"ddp", "all", "there is no distributed training"},
    {"ddp_graphs", "graph", "there is no distributed training"},
    {"distributed", "all", "there is no distributed training"},
    {"dtensor", "all", "there is no distributed training"},
    {"export", "dynamo", "programs are not exported, archives come from PyTorch"},
    {"fake_tensor", "trace_call", "results of meta functions show with the operation"},
    {"fsdp", "all", "there is no distributed training"},
    {"graph_code_verbose", "graph_code", "a graph's text holds all that it knows"},
    {"graph_region_expansion", "graph_code", "equal regions are not looked for"},
    {"hierarchical_compile", "graph_code", "equal regions are not looked for"},
    {"joint_graph_passes", "aot_joint_graph", "it shows the joint graph after its passes"},
    {"loop_tiling", "loop_ordering", "loops are not tiled"},
    {"node_runtime_estimation", "partition", "estimates show there at level info"},
    {"not_implemented", "graph_breaks", "what is not supported is a graph break or an error"},
    {"onnx", "graph_code", "there is no ONNX exporter"},
    {"onnx_diagnostics", "graph_code", "there is no ONNX exporter"},
    {"overlap", "schedule", "there is no communication to overlap"},
    {"pp", "all", "there is no distributed training"},
    {"sym_node", "trace_shape_events", "it shows symbols and conditions"},
    {"torch", "all", "it stands for all of PyTorch"},
    {"trace_bytecode", "trace_call", "C++ has no bytecode"},
};

template <class Row>
const Row* find(std::span<const Row> rows, std::string_view name) {
  auto at = std::ranges::find(rows, name, &Row::name);
  return at == rows.end() ? nullptr : &*at;
}

}  // namespace

std::span<const LogComponent> log_components() { return components; }
std::span<const LogArtifact> log_artifacts() { return artifacts; }
std::span<const RefusedLog> refused_logs() { return refused; }

const LogComponent* find_log_component(std::string_view name) {
  return find(log_components(), name);
}
const LogArtifact* find_log_artifact(std::string_view name) { return find(log_artifacts(), name); }

std::string unknown_log(std::string_view name) {
  if (const RefusedLog* known = find(refused_logs(), name))
    return message("{} is a name of PyTorch's that has no lines here: {}; the nearest is {}", name,
                   known->why, known->nearest);
  std::set<std::string> names = {"all", "help"};  // some are both
  for (const LogComponent& row : components) names.emplace(row.name);
  for (const LogArtifact& row : artifacts) names.emplace(row.name);
  return message("'{}' is neither a component nor an artifact; did you mean {}?", name,
                 nearest_names(name, {names.begin(), names.end()}));
}

std::string log_help() {
  std::string out =
      "names of logging.logs (TENON_LOGS), separated by commas; +NAME: level debug, -NAME: errors "
      "only\ncomponents: all";
  for (const LogComponent& row : components) out += message("\n  {}: {}", row.name, row.doc);
  out += "\nartifacts, written whatever the level:";
  for (const LogArtifact& row : artifacts) out += message("\n  {}: {}", row.name, row.doc);
  return out;
}

}  // namespace tenon::report
