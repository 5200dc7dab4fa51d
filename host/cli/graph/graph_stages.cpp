// Stages of graphs: lowered, with gradients, cut in two, fused.
#include "cli/graph/graph_stages.h"

#include "aot/joint_pass.h"
#include "aot/lower.h"
#include "backend/backend.h"
#include "cli/model_options.h"
#include "compile/compile_graph.h"
#include "compile/staged_graph.h"
#include "config/flags.h"
#include "core/error.h"
#include "graph/memory_budget.h"
#include "partition/split.h"

#include <tenon/autograd.h>
#include <tenon/plugin.h>

#include <algorithm>

namespace tenon::cli {

namespace {

constexpr std::string_view stages[] = {"captured", "decomposed", "joint",
                                       "forward",  "backward",   "fused"};

// How the graph is lowered, and who cuts it.
struct Lowering {
  LowerOptions options;
  std::string partitioner = "min_cut";
};

Lowering lowering_of(const std::string& stage, const std::string& backend) {
  if (backend.empty()) {
    LowerOptions options;
    if (stage == "decomposed") options.decomposes = decomposition_set("core_aten", {});
    options.remove_dead_code = config::flags().dynamo.dead_code_elimination;
    options.merge_expressions = config::flags().functorch.cse;
    return {std::move(options)};
  }
  BackendInfo info = backend_info(backend);
  require(info.stage != Stage::captured,
          "backend {} takes graphs as they are captured, so it has no other stage; name one that "
          "takes lowered graphs, such as aot_eager or inductor",
          backend);
  return {lowering_for(info), info.partitioner};
}

Lowered joint_of(const Graph& captured, const Lowering& lowering) {
  Lowered joint = lower_training(captured, lowering.options);
  require(joint.derivative.has_value(),
          "no result of this model needs a gradient: no input is marked requires_grad; stages "
          "joint, forward and backward are those of models with weights to train");
  run_joint_pass(joint, lowering.options);
  return joint;
}

TrainingHalves halves_of(const Graph& captured, const Lowering& lowering) {
  Lowered joint = joint_of(captured, lowering);
  auto cut = partition::decide(joint, lowering.partitioner, memory_budget_of(captured));
  return partition::cut(joint, std::move(cut));
}

// The joint graph of a model whose weights are trained, or one of its halves.
std::shared_ptr<Graph> training_stage(const Graph& captured, const std::string& stage,
                                      const Lowering& lowering) {
  if (stage == "joint") return joint_of(captured, lowering).graph;
  TrainingHalves halves = halves_of(captured, lowering);
  return stage == "forward" ? halves.forward.graph : halves.backward.graph;
}

// As calls of a training step run: each half by itself.
std::string loops_of_halves(const Graph& captured, const std::string& backend) {
  TrainingHalves halves = halves_of(captured, lowering_of("fused", backend));
  CompileRequest request;
  request.backend = backend;
  request.dynamic = !captured.symbols.empty();
  request.n_saved = halves.n_extra;
  std::string out;
  for (Stage stage : {Stage::forward, Stage::backward}) {
    request.stage = stage;
    request.graph = stage == Stage::forward ? halves.forward.graph : halves.backward.graph;
    std::string loops = compile_with_backend(backend, request)->describe(TN_DESC_GRAPH);
    if (loops.empty()) continue;
    out += message("half {}\n{}", stage == Stage::forward ? "forward" : "backward", loops);
    if (!out.ends_with('\n')) out += '\n';
  }
  return out;
}

std::string loops_of(const std::shared_ptr<Graph>& captured, const std::string& backend) {
  NoGradGuard as_calls_run;
  CompileGraphOptions options{.backend = backend, .use_cache = false};
  options.dynamic = !captured->symbols.empty();
  return compile_graph(captured, options)->describe(TN_DESC_GRAPH);
}

}  // namespace

std::span<const std::string_view> graph_stages() { return stages; }

void require_stage(const std::string& stage) {
  std::vector<std::string> known(std::begin(stages), std::end(stages));
  require(std::ranges::find(known, stage) != known.end(),
          "--stage {}: there is no such stage; the nearest are {}", stage,
          nearest_names(stage, known));
}

std::shared_ptr<Graph> graph_of_stage(const std::shared_ptr<Graph>& captured,
                                      const std::string& stage, const std::string& backend) {
  if (stage == "captured") return captured;
  Lowering lowering = lowering_of(stage, backend);
  if (stage == "decomposed") return lower_inference(*captured, lowering.options).graph;
  return training_stage(*captured, stage, lowering);
}

std::string fused_text(const std::shared_ptr<Graph>& captured, const std::string& backend,
                       bool grad) {
  std::string name = backend.empty() ? default_backend() : backend;
  std::string text = grad ? loops_of_halves(*captured, name) : loops_of(captured, name);
  require(!text.empty(),
          "backend {} shows no loops, so it has no stage fused; name one that fuses, such as "
          "inductor or nnc",
          name);
  return text;
}

}  // namespace tenon::cli
