// Stages in order, then nodes.
#include "debug/minify/bisect.h"

namespace tenon {

namespace {

constexpr std::pair<std::string_view, std::string_view> stages_before[] = {
    {"eager", "the captured graph, op by op"},
    {"aot_eager", "functional graphs, and gradients ahead of time"},
    {"aot_eager_decomp_partition", "decompositions and the min-cut partition"},
    {"debug_nop", "values as tracing described them"},
};

std::vector<BisectStage> stages_up_to(const std::string& backend) {
  std::vector<BisectStage> out;
  for (const auto& [name, adds] : stages_before) {
    out.push_back({std::string(name), adds, {}});
    if (name == backend) return out;
  }
  out.push_back({backend, "the code of the backend", {}});
  return out;
}

}  // namespace

Bisected bisect(ChildJudge& judge, const Candidate& whole, const std::string& backend,
                const std::function<void(const BisectStage&)>& on_stage,
                const OnProgress& on_progress) {
  Bisected out;
  for (BisectStage& stage : stages_up_to(backend)) {
    stage.failure = judge.judge(whole, stage.backend);
    on_stage(stage);
    out.stages.push_back(std::move(stage));
    if (out.has_failure()) break;
  }
  if (!out.has_failure()) return out;
  const BisectStage& bad = out.stages.back();
  judge.set_haste(bad.failure.kind == Failure::Kind::hang);
  FailureJudge on_stage_alone = [&](const Candidate& c) { return judge.judge(c, bad.backend); };
  out.part =
      minify_nodes(whole, judge.known_values(whole), bad.failure, on_stage_alone, on_progress);
  judge.set_haste(false);
  out.nodes = out.part.nodes;
  return out;
}

}  // namespace tenon
