// Lowering, differentiating and cutting graphs; wrapping the code of the parts.
#include "compile/staged_graph.h"

#include "aot/backward_autocast.h"
#include "aot/eager_training.h"
#include "aot/joint_pass.h"
#include "aot/training.h"
#include "compile/tell_unit.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "graph/memory_budget.h"
#include "graph/text/print.h"
#include "graph/verify.h"
#include "report/compile_record.h"
#include "report/events.h"
#include "report/log.h"

#include <algorithm>

namespace tenon {

namespace {

using Kind = StagedGraph::Kind;

std::string name_of(const Graph& graph) { return graph.name.empty() ? "a graph" : graph.name; }

// What does not become code runs op by op, which is told, unless a flag wants none of it.
void note_refusal(const char* counter, const std::string& what, const Error& error) {
  require(!config::flags().dynamo.raise_on_unsafe_aot_autograd, error.code(),
          "{} cannot be compiled: {}; with dynamo.raise_on_unsafe_aot_autograd = false it runs op "
          "by op",
          what, error.what());
  report::counter(counter).add();
  std::string line = message("{} is not compiled and runs op by op: {}", what, error.what());
  report::log_line(report::LogLevel::info, "aot", line);
  report::log_artifact("perf_hints", line);
}

std::optional<Lowered> joint_of(const Graph& graph, const LowerOptions& options) {
  report::PhaseScope phase("joint");
  try {
    return lower_training(graph, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported && error.code() != ErrorCode::data_dependent) throw;
    note_refusal("aot.joint_refused", message("the backward of {}", name_of(graph)), error);
    return std::nullopt;
  }
}

// What is handed to the backend, shown and checked where flags ask for it.
void look_at(const Graph& graph, bool verifies) {
  if (verifies || config::flags().functorch.debug_assert) {
    verify_meta(graph);
    report::counter("aot.verified_graphs").add();
  }
  if (report::artifact_enabled("aot_graphs")) report::log_artifact("aot_graphs", to_text(graph));
}

// Those whose memory stays where it is: parameters, buffers, captured and marked tensors.
std::vector<uint32_t> static_inputs_of(const Graph& graph) {
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueFlags& flags = graph.value(graph.inputs()[i]).flags;
    if (flags.parameter || flags.buffer || flags.static_address) out.push_back(i);
  }
  return out;
}

CompileRequest request_for_half(CompileRequest request, const Extracted& half, Stage stage,
                                uint32_t n_saved, bool verifies) {
  request.graph = half.graph;
  request.stage = stage;
  request.n_saved = n_saved;
  request.mutated_inputs.clear();
  request.static_inputs = static_inputs_of(*half.graph);
  look_at(*half.graph, verifies);
  return request;
}

// Forward and backward are compiled, each when it is needed.
std::shared_ptr<Artifact> assemble_halves(StagedGraph staged, const CompileRequest& request,
                                          const MakeCode& make) {
  tell_cut(staged, request.compile_id);
  TrainingHalves halves = partition::cut(staged.lowered, std::move(staged.cut));
  bool verifies = staged.verifies;
  auto forward =
      make(request_for_half(request, halves.forward, Stage::forward, halves.n_extra, verifies));
  auto compile_backward = [make, request, verifies, whole = halves.backward.graph](
                              const Extracted& half, uint32_t n_saved) {
    CompileRequest backward = request_for_half(request, half, Stage::backward, n_saved, verifies);
    backward.is_partial = half.graph != whole;
    return make(backward);
  };
  return wrap_training(std::move(staged.lowered), std::move(halves), std::move(forward),
                       compile_backward);
}

}  // namespace

// Of recordings the flag decides: a copy at the end of one writes where its input lay.
static bool keeps_input_mutations(const BackendInfo& backend) {
  bool by_flag =
      backend.name == "cudagraphs" && config::flags().dynamo.cudagraph_backend_keep_input_mutation;
  return backend.keep_inference_input_mutations || by_flag;
}

LowerOptions lowering_for(const BackendInfo& backend) {
  LowerOptions lower;
  lower.decomposes =
      decomposition_set(backend.decompositions, backend.decomposition_ops, backend.kept_ops);
  lower.keep_input_mutations = keeps_input_mutations(backend);
  lower.remove_dead_code = config::flags().dynamo.dead_code_elimination;
  lower.merge_expressions = config::flags().functorch.cse;
  return lower;
}

bool wants_gradients(const Graph& graph) {
  return thread_modes.grad_enabled && std::ranges::any_of(graph.inputs(), [&](ValueId input) {
           return graph.value(input).flags.requires_grad;
         });
}

std::optional<StagedGraph> stage_graph(const Graph& graph, const BackendInfo& backend,
                                       const AutocastState& autocast) {
  LowerOptions options = lowering_for(backend);
  if (wants_gradients(graph)) {
    options.backward_autocast = autocast_of_backward(autocast);
    std::optional<double> budget = memory_budget_of(graph);
    if (std::optional<Lowered> joint = joint_of(graph, options)) {
      if (!joint->derivative)
        return StagedGraph{Kind::views_on_tape, *std::move(joint), {}, backend.debug_assert};
      // The user's pass sees both halves at once, tangents included.
      run_joint_pass(*joint, options);
      report::PhaseScope phase("partition");
      partition::Decision cut = partition::decide(*joint, backend.partitioner, budget);
      return StagedGraph{Kind::training, *std::move(joint), std::move(cut), backend.debug_assert};
    }
  }
  report::PhaseScope phase("lower");
  try {
    return StagedGraph{Kind::inference, lower_inference(graph, options), {}, backend.debug_assert};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    note_refusal("aot.lowering_refused", name_of(graph), error);
    return std::nullopt;
  }
}

// Backends that keep graphs for people see what the halves are cut from as well.
static void show_joint(const StagedGraph& staged, const CompileRequest& request) {
  std::vector<std::string> tags = backend_info(request.backend).tags;
  if (std::ranges::find(tags, "joint") == tags.end()) return;
  CompileRequest joint = request;
  joint.stage = Stage::inference;
  joint.graph = staged.lowered.graph;
  compile_with_backend(request.backend, joint);
}

std::shared_ptr<Artifact> assemble(StagedGraph staged, const std::shared_ptr<Graph>& recorded,
                                   const CompileRequest& request, const MakeCode& make_code) {
  MakeCode make = telling_unit(make_code);
  if (staged.kind != Kind::inference && report::artifact_enabled("aot_joint_graph"))
    report::log_artifact("aot_joint_graph", to_text(*staged.lowered.graph));
  if (staged.kind == Kind::training) {
    show_joint(staged, request);
    return assemble_halves(std::move(staged), request, make);
  }

  CompileRequest whole = request;
  whole.stage = Stage::inference;
  whole.graph = staged.lowered.graph;
  if (staged.kind == Kind::views_on_tape)
    return wrap_views_on_tape(std::move(staged.lowered), make(whole));

  // A graph without mutation; the wrapper puts effects and aliases right around its code.
  look_at(*staged.lowered.graph, staged.verifies);
  whole.static_inputs = static_inputs_of(*whole.graph);
  whole.mutated_inputs = staged.lowered.mutated_inputs;
  auto compiled = wrap_inference(std::move(staged.lowered), make(whole));
  // Code for inference leaves no gradients behind: calls that want some run on the tape.
  return wants_gradients(*recorded) ? with_eager_training(recorded, std::move(compiled)) : compiled;
}

}  // namespace tenon
