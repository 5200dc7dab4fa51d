// What a value of a graph is a view of, as far as the tape follows it.
#pragma once

#include "core/function_ref.h"
#include "graph/graph.h"

#include <span>

namespace tenon {

/// What is asked of a graph, recorded or being recorded.
struct GraphOfViews {
  const Graph& graph;
  std::span<const ValueId> values_before;  ///< see GraphRecorder
  bool grad_enabled;                       ///< where nodes do not say otherwise
  FunctionRef<bool(ValueId, ValueId)> share_memory;
};

/// Whether gradients are on at a node, in a graph that runs with gradients on, or off.
bool is_grad_enabled_at(const Node& node, bool around);

struct ViewRoot {
  ValueId value;         ///< as it was before the first write in place
  bool is_view = false;  ///< of another tensor
  /// A view of a tensor that needs a gradient was made on the way while gradients were off.
  bool from_no_grad = false;
};

/// The tensor that `v` is, or is a view of, however many views and writes in place lie between. What is
/// written to one of the values that have a root in common gives all of them a history. What detach()
/// gives, and a function with a derivative of its own, is a root itself.
ViewRoot view_root(const GraphOfViews& of, ValueId v);
/// Whether `v` is what an op has left that wrote this very tensor with gradients on. What its root is
/// has been asked then; loops write one tensor many times.
bool was_written_with_grad(const Graph& graph, std::span<const ValueId> values_before,
                           bool grad_enabled, ValueId v);

}  // namespace tenon
