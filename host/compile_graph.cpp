// From a captured graph to its code: what compile.cpp does once a graph is recorded.
//
//   captured graph ──▶ backends of stage "captured"
//        └── lower ──▶ functional graph ──▶ backend ──▶ wrapper
//        └── gradients wanted: compile_training.cpp
#include "aot/eager_training.h"
#include "aot/lower.h"
#include "compile.h"
#include "compile_training.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "core/shape_env.h"
#include "graph/print.h"
#include "graph/verify.h"
#include "report/compile_record.h"
#include "report/events.h"
#include "report/log.h"
#include "runtime/checked_artifact.h"
#include "runtime/repro.h"

#include <algorithm>

namespace tenon {

static LowerOptions lowering_for(const BackendInfo& backend) {
  LowerOptions lower;
  lower.decomposes =
      decomposition_set(backend.decompositions, backend.decomposition_ops, backend.kept_ops);
  lower.keep_input_mutations = backend.keep_inference_input_mutations;
  lower.remove_dead_code = config::flags().dynamo.dead_code_elimination;
  lower.merge_expressions = config::flags().functorch.cse;
  return lower;
}

std::shared_ptr<Graph> graph_for_backend(const std::shared_ptr<Graph>& graph,
                                         const std::string& name) {
  BackendInfo backend = backend_info(name);
  if (backend.stage == Stage::captured) return graph;
  return lower_inference(*graph, lowering_for(backend)).graph;
}

namespace {

// Compiles, leaving behind what flag dynamo.repro_after wants where that fails or crashes.
template <class Compile>
std::shared_ptr<Artifact> with_repro(ReproStage stage, const Graph& graph,
                                     const ReproCompile& repro, Compile compile) {
  if (wants_repro(stage, 3)) write_graph_repro(graph, repro, "");
  try {
    return compile();
  } catch (const std::exception& error) {
    if (wants_repro(stage, 1)) write_graph_repro(graph, repro, error.what());
    throw;
  }
}

std::shared_ptr<Artifact> ask_backend(const std::string& name, const CompileRequest& request) {
  report::PhaseScope phase("backend");
  return compile_with_backend(name, request);
}

Lowered lowered_for(const Graph& graph, const BackendInfo& backend) {
  report::PhaseScope phase("lower");
  Lowered lowered = lower_inference(graph, lowering_for(backend));
  if (config::flags().functorch.debug_assert) {
    verify_meta(*lowered.graph);
    report::counter("aot.verified_graphs").add();
  }
  if (report::artifact_enabled("aot_graphs"))
    report::log_artifact("aot_graphs", to_text(*lowered.graph));
  return lowered;
}

bool wants_gradients(const Graph& graph) {
  return thread_modes.grad_enabled && std::ranges::any_of(graph.inputs(), [&](ValueId input) {
           return graph.value(input).flags.requires_grad;
         });
}

std::shared_ptr<Artifact> compile_stages(const std::shared_ptr<Graph>& graph,
                                         const BackendInfo& backend, CompileRequest request,
                                         const ReproCompile& repro) {
  // A backend of stage "captured" gets the graph as it was recorded.
  if (backend.stage == Stage::captured) {
    request.graph = graph;
    return ask_backend(backend.name, request);
  }

  // What it gets may be handed on as a repro; the backward is asked for long after this.
  auto ask = [repro, name = backend.name](const CompileRequest& lowered) {
    return with_repro(ReproStage::aot, *lowered.graph, repro,
                      [&] { return ask_backend(name, lowered); });
  };

  // Where gradients will be wanted, forward and backward are compiled, each when it is needed.
  bool trains = wants_gradients(*graph);
  if (trains)
    if (auto trained = compile_training(graph, backend, lowering_for(backend), request, ask))
      return trained;

  // The others get a graph without mutation, with the ops taken apart that their manifest names.
  Lowered lowered = lowered_for(*graph, backend);

  // The plugin turns it into code, and the wrapper puts effects and aliases right around it.
  request.stage = Stage::inference;
  request.graph = lowered.graph;
  request.mutated_inputs = lowered.mutated_inputs;
  auto inner = ask(request);
  auto compiled = wrap_inference(std::move(lowered), std::move(inner));

  // Code for inference leaves no gradients behind: calls that want some run on the tape.
  return trains ? with_eager_training(graph, std::move(compiled)) : compiled;
}

}  // namespace

std::shared_ptr<Artifact> compile_graph(const std::shared_ptr<Graph>& graph,
                                        const CompileGraphOptions& options) {
  BelowAutocast casts_are_recorded;
  BackendInfo backend = backend_info(options.backend.empty() ? default_backend() : options.backend);
  CompileRequest request;
  request.mode = options.mode;
  request.options_toml = options.options_toml;
  request.compile_id = options.compile_id;
  request.dynamic = options.dynamic;
  request.grad_enabled = thread_modes.grad_enabled;
  request.deterministic = thread_modes.deterministic;
  if (auto* watch = report::CompileWatch::current()) watch->record().backend = backend.name;

  ReproCompile repro{options.compile_id, backend.name, options.mode, options.options_toml};
  size_t n_guards = graph->shape_env ? graph->shape_env->guards().size() : 0;
  auto artifact = with_repro(ReproStage::dynamo, *graph, repro, [&] {
    return compile_stages(graph, backend, std::move(request), repro);
  });
  // What the stages before the backend asked about sizes is a condition like the backend's own.
  if (graph->shape_env)
    for (const RecordedGuard& g : graph->shape_env->guards().subspan(n_guards))
      artifact->guards.push_back(g.condition);
  return checked_artifact(graph, std::move(artifact), repro);
}

}  // namespace tenon
