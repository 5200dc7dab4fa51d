// From a captured graph to its code: what compile.cpp does once a graph is recorded.
//
//   captured graph ──▶ backends of stage "captured"
//        ├── known to the cache on disk ──────────────────────────────▶ wrapper
//        └── stages (staged_graph.cpp) ──▶ functional graphs ──▶ backend ──▶ wrapper
#include "compile/compile_graph.h"

#include "aot/backward_autocast.h"
#include "compile/ask_backend.h"
#include "compile/graph_cache.h"
#include "compile/staged_graph.h"
#include "compile/tell_unit.h"
#include "core/dispatch.h"
#include "core/threads/cancellation_off.h"
#include "graph/text/print.h"
#include "report/compile_record.h"
#include "report/events.h"
#include "report/log.h"
#include "runtime/checked_artifact.h"
#include "runtime/recorded_calls.h"
#include "runtime/repro.h"

namespace tenon {

std::shared_ptr<Graph> graph_for_backend(const std::shared_ptr<Graph>& graph,
                                         const std::string& name) {
  BackendInfo backend = backend_info(name, *graph);
  if (backend.stage == Stage::captured) return graph;
  return lower_inference(*graph, lowering_for(backend)).graph;
}

namespace {

std::shared_ptr<Artifact> compile_stages(const std::shared_ptr<Graph>& graph,
                                         const BackendInfo& backend, CompileRequest request,
                                         const ReproCompile& repro, bool use_cache) {
  // A backend of stage "captured" gets the graph as it was recorded.
  if (backend.stage == Stage::captured) {
    request.graph = graph;
    MakeCode make =
        telling_unit([&](const CompileRequest& r) { return ask_backend(backend.name, r); });
    return with_conditions(*graph, [&] { return make(request); });
  }
  if (report::artifact_enabled("pre_grad_graphs"))
    report::log_artifact("pre_grad_graphs", to_text(*graph));

  // What was made of the same graph before serves again, also in another process.
  MakeCode make = code_maker(backend.name, repro);
  std::shared_ptr<GraphCache> cache;
  if (use_cache) cache = GraphCache::open(graph, backend, request);
  if (cache)
    if (auto kept = cache->load(make)) return kept;

  report::counter("aot.total").add();
  auto compiled = with_conditions(*graph, [&] {
    // The others get functional graphs with the ops taken apart that their manifest names: one,
    // or where gradients will be wanted one for the forward and one for the backward.
    std::optional<StagedGraph> staged = stage_graph(*graph, backend, request.autocast);
    if (!staged) return interpreter_artifact(graph);
    if (cache) make = cache->keeping(*staged, make);

    // The plugin turns them into code, and wrappers put effects and aliases right around it.
    return assemble(*std::move(staged), graph, request, make);
  });
  report::counter("aot.ok").add();
  if (cache) cache->keep_conditions(compiled->guards);
  return compiled;
}

}  // namespace

std::shared_ptr<Artifact> compile_graph(const std::shared_ptr<Graph>& graph,
                                        const CompileGraphOptions& options) {
  const CancellationOff until_compiled;
  AutocastState autocast = autocast_in_effect();
  BelowAutocast casts_are_recorded;
  BackendInfo backend =
      backend_info(options.backend.empty() ? default_backend() : options.backend, *graph);
  CompileRequest request;
  request.mode = options.mode;
  request.options_toml = options.options_toml;
  request.compile_id = options.compile_id;
  request.backend = backend.name;
  request.dynamic = options.dynamic;
  request.grad_enabled = thread_modes.grad_enabled;
  request.deterministic = thread_modes.deterministic;
  request.autocast = autocast;
  if (auto* watch = report::CompileWatch::current()) watch->record().backend = backend.name;

  ReproCompile repro{options.compile_id, backend.name, options.mode, options.options_toml};
  auto artifact = with_repro(ReproStage::dynamo, graph, repro, [&] {
    return compile_stages(graph, backend, std::move(request), repro, options.use_cache);
  });
  return recorded_artifact(graph, checked_artifact(graph, std::move(artifact), repro),
                           backend.name);
}

}  // namespace tenon
