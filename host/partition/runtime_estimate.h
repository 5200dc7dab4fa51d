// What recomputing a value is taken to cost.
//
// Threads: pure functions, but for the callback of `profile`.
#pragma once

#include "partition/work_graph.h"

namespace tenon::partition {

/// Floating-point operations of a call: products of matrices, convolutions and attention are
/// counted, everything else is 1. Sizes are hints.
double flops_of(const WorkGraph& graph, JointId id);

/// By options.runtime_estimator: `flops`, `testing` (1 each) or `profile` (the callback, in
/// milliseconds). Throws UserError for another name and for `profile` without a callback.
double estimate_runtime(const WorkGraph& graph, const PartitionOptions& options, JointId id);

/// Throws UserError unless options.runtime_estimator is one of these and, under a budget, can be
/// asked.
void check_runtime_estimator(const PartitionOptions& options);

}  // namespace tenon::partition
