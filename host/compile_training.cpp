// Training: what compile.cpp does with a graph whose inputs need gradients.
//
//   graph ──▶ joint graph (aot) ──▶ forward | backward (partition) ──▶ backend, twice ──▶ artifact
//
// The backward half goes to the backend when the first gradient arrives.
#include "compile_training.h"

#include "aot/training.h"
#include "config/flags.h"
#include "core/error.h"
#include "graph/print.h"
#include "graph/verify.h"
#include "partition/split.h"
#include "report/compile_record.h"
#include "report/events.h"
#include "report/log.h"

#include <algorithm>

namespace tenon {

namespace {

CompileRequest request_for_half(CompileRequest request, const Extracted& half, Stage stage,
                                uint32_t n_saved) {
  request.graph = half.graph;
  request.stage = stage;
  request.n_saved = n_saved;
  request.mutated_inputs.clear();
  request.static_inputs.clear();
  for (uint32_t i = 0; i < half.graph->inputs().size(); ++i) {
    const ValueFlags& flags = half.graph->value(half.graph->inputs()[i]).flags;
    if (flags.parameter || flags.static_address) request.static_inputs.push_back(i);
  }
  if (report::artifact_enabled("aot_graphs"))
    report::log_artifact("aot_graphs", to_text(*half.graph));
  if (config::flags().functorch.debug_assert) verify_meta(*half.graph);
  return request;
}

std::optional<Lowered> joint_of(const Graph& graph, const LowerOptions& options) {
  report::PhaseScope phase("joint");
  try {
    Lowered joint = lower_training(graph, options);
    if (report::artifact_enabled("aot_joint_graph"))
      report::log_artifact("aot_joint_graph", to_text(*joint.graph));
    return joint;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported && error.code() != ErrorCode::data_dependent) throw;
    report::counter("aot.joint_refused").add();
    report::log_line(report::LogLevel::info, "aot",
                     message("the backward of {} is not compiled and runs op by op: {}",
                             graph.name.empty() ? "a graph" : graph.name, error.what()));
    return std::nullopt;
  }
}

}  // namespace

std::shared_ptr<Artifact> compile_training(const std::shared_ptr<Graph>& graph,
                                           const BackendInfo& backend, const LowerOptions& lower,
                                           const CompileRequest& request, const AskBackend& ask) {
  std::optional<Lowered> joint = joint_of(*graph, lower);
  if (!joint) return nullptr;
  if (!joint->derivative) {
    CompileRequest whole = request;
    whole.graph = joint->graph;
    whole.stage = Stage::inference;
    return wrap_views_on_tape(std::move(*joint), ask(whole));
  }
  TrainingHalves halves = [&] {
    report::PhaseScope phase("partition");
    return partition::split(*joint, backend.partitioner);
  }();
  auto n_saved = static_cast<uint32_t>(halves.saved.size());
  auto forward = ask(request_for_half(request, halves.forward, Stage::forward, halves.n_extra));
  auto compile_backward =
      [ask, half = request_for_half(request, halves.backward, Stage::backward, n_saved)] {
        report::counter("aot.backward_compiles").add();
        return ask(half);
      };
  return wrap_training(std::move(*joint), std::move(halves), std::move(forward), compile_backward);
}

}  // namespace tenon
