// At which stage of a compile, and at which operations, a failure begins.
//
// Problem: a model fails on a backend. Whose fault is it: that of the captured graph, of AOT
//   autograd, of a decomposition, of what tracing says of values, or of the backend's code?
// Method: one judgement a stage, in the order in which they build on each other, until one fails;
//   then delta debugging of the nodes on that stage. Nodes that fail only together stay together.
// Cost: five judgements, and some log n for one node of n.
#pragma once

#include "debug/minify/child_judge.h"

namespace tenon {

struct BisectStage {
  std::string backend;
  std::string_view adds;  ///< what it does that those before it do not
  Failure failure;        ///< none where it is fine
};

struct Bisected {
  std::vector<BisectStage> stages;  ///< up to the first that fails
  std::vector<NodeId> nodes;        ///< that fail together there; empty: no stage fails
  Minified part;                    ///< them as a graph

  bool has_failure() const { return !stages.empty() && stages.back().failure; }
};

/// `on_stage` is told of each stage when it is judged.
Bisected bisect(ChildJudge& judge, const Candidate& whole, const std::string& backend,
                const std::function<void(const BisectStage&)>& on_stage,
                const OnProgress& on_progress);

}  // namespace tenon
