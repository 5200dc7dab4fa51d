// At which stage of a compile, and at which operations, a failure begins.
//
// Problem: a model fails on a backend. Whose fault is it: that of the captured graph, of AOT
//   autograd, of a decomposition, of what tracing says of values, or of the backend's code?
// Method: one judgement a stage, in the order in which they build on each other, until one fails.
//   Where that is the backend's code, one for each half of training, the other half run op by op,
//   and a search for the first region without which nothing fails. Then delta debugging of the nodes
//   on that stage. Nodes that fail only together stay together.
// Cost: five judgements, two of halves, log r of r regions, and some log n for one node of n.
#pragma once

#include "debug/minify/child_judge.h"

namespace tenon {

struct BisectStage {
  std::string backend;
  std::string_view adds;  ///< what it does that those before it do not
  Failure failure;        ///< none where it is fine
};

struct Bisected {
  std::vector<BisectStage> stages;         ///< up to the first that fails
  std::vector<NodeId> nodes;               ///< that fail together there; empty: no stage fails
  Minified part;                           ///< them as a graph
  TrainingHalf half = TrainingHalf::both;  ///< whose code fails alone; both: there is none
  std::optional<int64_t> region;           ///< whose code fails, from 0 on as they are compiled

  bool has_failure() const { return !stages.empty() && stages.back().failure; }
};

/// `on_stage` is told of each stage when it is judged.
Bisected bisect(ChildJudge& judge, const Candidate& whole, const std::string& backend, bool grad,
                const std::function<void(const BisectStage&)>& on_stage,
                const OnProgress& on_progress);

}  // namespace tenon
