// From a captured graph to its code: what compile.cpp does once a graph is recorded.
//
//   captured graph ──▶ backends of stage "captured"
//        ├── known to the cache on disk ──────────────────────────────▶ wrapper
//        └── stages (staged_graph.cpp) ──▶ functional graphs ──▶ backend ──▶ wrapper
#include "aot/backward_autocast.h"
#include "aot/functional_rng.h"
#include "compile/compile_graph.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "core/sym/shape_env.h"
#include "compile/graph_cache.h"
#include "report/compile_record.h"
#include "report/events.h"
#include "runtime/checked_artifact.h"
#include "runtime/repro.h"
#include "compile/staged_graph.h"

namespace tenon {

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

// With functorch.functionalize_rng_ops a graph that draws gets seed and offset as inputs.
template <class Ask>
std::shared_ptr<Artifact> ask_with_rng(const CompileRequest& request, const Ask& ask) {
  if (!config::flags().functorch.functionalize_rng_ops) return ask(request);
  bool backward = request.stage == Stage::backward;
  FunctionalRng drawn = functionalize_rng(*request.graph, backward ? "bwd" : "fwd",
                                          request.stage == Stage::forward ? request.n_saved : 0);
  if (!drawn.graph) return ask(request);
  CompileRequest functional = request;
  functional.graph = drawn.graph;
  if (!functional.aliased_outputs.empty())
    functional.aliased_outputs.insert(functional.aliased_outputs.begin() + drawn.offset_output,
                                      no_value);
  return with_generator(ask(functional), drawn.offset_output);
}

// What it gets may be handed on as a repro; the backward is asked for long after this.
MakeCode asking(const std::string& name, const ReproCompile& repro) {
  return [repro, name](const CompileRequest& request) {
    if (request.stage == Stage::backward) report::counter("aot.backward_compiles").add();
    return ask_with_rng(request, [&](const CompileRequest& asked) {
      return with_repro(ReproStage::aot, *asked.graph, repro,
                        [&] { return ask_backend(name, asked); });
    });
  };
}

// The artifact, with what the stages asked about sizes as conditions like the backend's own.
template <class Compile>
std::shared_ptr<Artifact> with_conditions(const Graph& graph, Compile compile) {
  size_t n_before = graph.shape_env ? graph.shape_env->guards().size() : 0;
  std::shared_ptr<Artifact> artifact = compile();
  if (graph.shape_env)
    for (const RecordedGuard& g : graph.shape_env->guards().subspan(n_before))
      artifact->guards.push_back(g.condition);
  return artifact;
}

std::shared_ptr<Artifact> compile_stages(const std::shared_ptr<Graph>& graph,
                                         const BackendInfo& backend, CompileRequest request,
                                         const ReproCompile& repro, bool use_cache) {
  // A backend of stage "captured" gets the graph as it was recorded.
  if (backend.stage == Stage::captured) {
    request.graph = graph;
    return with_conditions(*graph, [&] { return ask_backend(backend.name, request); });
  }

  // What was made of the same graph before serves again, also in another process.
  MakeCode make = asking(backend.name, repro);
  std::shared_ptr<GraphCache> cache;
  if (use_cache) cache = GraphCache::open(graph, backend, request);
  if (cache)
    if (auto kept = cache->load(make)) return kept;

  auto compiled = with_conditions(*graph, [&] {
    // The others get functional graphs with the ops taken apart that their manifest names: one,
    // or where gradients will be wanted one for the forward and one for the backward.
    StagedGraph staged = stage_graph(*graph, backend, request.autocast);
    if (cache) make = cache->keeping(staged, make);

    // The plugin turns them into code, and wrappers put effects and aliases right around it.
    return assemble(std::move(staged), graph, request, make);
  });
  if (cache) cache->keep_conditions(compiled->guards);
  return compiled;
}

}  // namespace

std::shared_ptr<Artifact> compile_graph(const std::shared_ptr<Graph>& graph,
                                        const CompileGraphOptions& options) {
  AutocastOptions autocast = autocast_in_effect();
  BelowAutocast casts_are_recorded;
  BackendInfo backend = backend_info(options.backend.empty() ? default_backend() : options.backend);
  CompileRequest request;
  request.mode = options.mode;
  request.options_toml = options.options_toml;
  request.compile_id = options.compile_id;
  request.dynamic = options.dynamic;
  request.grad_enabled = thread_modes.grad_enabled;
  request.deterministic = thread_modes.deterministic;
  request.autocast = autocast;
  if (auto* watch = report::CompileWatch::current()) watch->record().backend = backend.name;

  ReproCompile repro{options.compile_id, backend.name, options.mode, options.options_toml};
  auto artifact = with_repro(ReproStage::dynamo, *graph, repro, [&] {
    return compile_stages(graph, backend, std::move(request), repro, options.use_cache);
  });
  return checked_artifact(graph, std::move(artifact), repro);
}

}  // namespace tenon
