// Passes over graphs: dead code, common subexpressions, constant folding, canonical order.
//
// Each returns whether it changed something and leaves a graph that `verify` accepts. All of them
// take graphs as captured, with views and in-place ops: what a storage is read and written through
// is found first (aliasing.h), and nothing that touches a written storage is merged, moved or
// removed. Results do not change by a bit, and neither does which outputs share memory.
#pragma once

#include <cstdint>

#include "core/dispatch.h"
#include "graph/graph.h"

namespace tenon {

struct DeadCodeOptions {
  /// Keep random ops whose results nobody reads, so that later ones draw the same numbers.
  bool keep_random = false;
};
/// Removes nodes that contribute neither to an output nor to an effect.
bool remove_dead_code(Graph& graph, const DeadCodeOptions& options = {});

/// Computes what is computed twice only once.
bool merge_common_subexpressions(Graph& graph);

struct FoldOptions {
  int64_t max_elements = 16;  ///< of each input and of all results together
};
/// Replaces nodes over constants, or over nothing, by their results.
bool fold_constants(Graph& graph, const FoldOptions& options = {});

struct CanonicalOptions {
  /// Keep copies in a forward: the caller may write an input before the backward runs, and what was
  /// copied is not to be computed again from it.
  bool keep_forward_copies = false;
  /// Keep views of a forward that gradients do not go through, as detach() is: values of a graph for
  /// training do not tell whether they need one, and the forward may be differentiated again.
  bool keep_ends_of_gradients = false;
};
/// Orders the operands of commutative ops by value and removes copies and views that change
/// nothing.
bool canonicalize(Graph& graph, const CanonicalOptions& options = {});

/// Whether the node gives argument 0 in memory of its own and changes nothing else.
bool is_plain_copy(const Graph& graph, NodeId n);

/// Floating types that hold less than f64.
inline bool is_narrow_floating(Dtype dtype) { return is_floating(dtype) && dtype != Dtype::f64; }
/// Casts to narrow floating types become casts to f64, for runs in double precision. Unlike the
/// other passes this changes results; sizes and dtypes that the graph states are left as they are.
bool widen_casts(Graph& graph);

}  // namespace tenon
