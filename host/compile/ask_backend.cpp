// Questions to backends.
#include "compile/ask_backend.h"

#include "aot/functional_rng.h"
#include "config/flags.h"
#include "core/sym/shape_env.h"
#include "report/compile_record.h"
#include "report/events.h"

namespace tenon {

std::shared_ptr<Artifact> ask_backend(const std::string& name, const CompileRequest& request) {
  report::PhaseScope phase("backend");
  return compile_with_backend(name, request);
}

namespace {

// With functorch.functionalize_rng_ops a graph that draws gets seed and offset as inputs.
std::shared_ptr<Artifact> ask_with_rng(const CompileRequest& request, const MakeCode& ask) {
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

}  // namespace

MakeCode code_maker(const std::string& backend, const ReproCompile& repro) {
  MakeCode ask = [repro, backend](const CompileRequest& request) {
    return with_repro(ReproStage::aot, request.graph, repro,
                      [&] { return ask_backend(backend, request); });
  };
  return [ask](const CompileRequest& request) {
    if (request.stage == Stage::backward) report::counter("aot.backward_compiles").add();
    return ask_with_rng(request, ask);
  };
}

std::shared_ptr<Artifact> with_conditions(const Graph& graph,
                                          FunctionRef<std::shared_ptr<Artifact>()> compile) {
  size_t n_before = graph.shape_env ? graph.shape_env->guards().size() : 0;
  std::shared_ptr<Artifact> artifact = compile();
  if (graph.shape_env)
    for (const RecordedGuard& g : graph.shape_env->guards().subspan(n_before))
      artifact->guards.push_back(g.condition);
  return artifact;
}

}  // namespace tenon
