// Stages in order, then nodes.
#include "debug/minify/bisect.h"

#include <algorithm>

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

/// The part of the backend's code that fails: what was judged before is sound.
class PartSearch {
 public:
  PartSearch(ChildJudge& judge, const Candidate& whole, const std::string& backend)
      : judge_(judge), whole_(whole), backend_(backend) {}

  TrainingHalf half() const {
    for (TrainingHalf half : {TrainingHalf::forward, TrainingHalf::backward})
      if (fails({half, -1})) return half;
    return TrainingHalf::both;
  }

  // The first ones fail from some number on: doubled until they do, then halved. Of a graph that is
  // one region there is nothing to tell.
  std::optional<int64_t> region(TrainingHalf half) const {
    constexpr int64_t most = int64_t{1} << 20;
    if (fails({half, 0}) || judge_.n_regions() < 2) return std::nullopt;
    int64_t fine = 0, bad = 1;
    for (; !fails({half, bad}); bad *= 2) {
      if (bad > most) return std::nullopt;
      fine = bad;
    }
    while (bad - fine > 1) {
      int64_t middle = fine + (bad - fine) / 2;
      (fails({half, middle}) ? bad : fine) = middle;
    }
    return fine;
  }

 private:
  bool fails(const BackendPart& part) const {
    return static_cast<bool>(judge_.judge(whole_, backend_, part));
  }

  ChildJudge& judge_;
  const Candidate& whole_;
  const std::string& backend_;
};

bool is_before_backend(const std::string& stage) {
  return std::ranges::any_of(stages_before, [&](const auto& s) { return s.first == stage; });
}

}  // namespace

Bisected bisect(ChildJudge& judge, const Candidate& whole, const std::string& backend, bool grad,
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
  if (!is_before_backend(bad.backend)) {
    PartSearch parts(judge, whole, bad.backend);
    if (grad && has_halves(bad.backend)) out.half = parts.half();
    if (has_regions(bad.backend)) out.region = parts.region(out.half);
  }
  FailureJudge on_stage_alone = [&](const Candidate& c) { return judge.judge(c, bad.backend); };
  out.part =
      minify_nodes(whole, judge.known_values(whole), bad.failure, on_stage_alone, on_progress);
  judge.set_haste(false);
  out.nodes = out.part.nodes;
  return out;
}

}  // namespace tenon
