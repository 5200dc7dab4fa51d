// How long the ops of a graph take on this machine.
#pragma once

#include "partition/from_graph.h"

namespace tenon::partition {

/// Runs single ops of a graph on random tensors, which take nothing from the program's random
/// numbers. Threads: one at a time.
class Timer {
 public:
  Timer(const Graph& graph, const JointView& view) : graph_(graph), view_(view) {}
  /// The shortest of a few runs; 0 for what cannot be run alone and for what draws random numbers.
  double milliseconds(const JointNode& node) const;

 private:
  const Graph& graph_;
  const JointView& view_;
};

}  // namespace tenon::partition
