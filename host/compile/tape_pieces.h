// Code of graphs whose body asks for the tape in the middle: hooks, and functions with a derivative
// of their own (autograd/tape_requests.h).
#pragma once

#include "core/function_ref.h"
#include "graph/artifact.h"

#include <tenon/compile.h>

#include <memory>

namespace tenon {

/// The graph as pieces with code of their own, each on the tape: one ends where a value is hooked, so
/// that a hook gets and gives all of the gradient, or may be sought, so that all of it is seen; an operation whose node is hooked is one, and not
/// compiled; forward of a function is one, behind which the function's own node stands, whose backward
/// is compiled like a callable with these options. Where nothing is asked for, the graph is one piece. Each call brings autograd::RequestsOfCall.
std::shared_ptr<Artifact> compile_tape_pieces(
    const std::shared_ptr<Graph>& graph, const Options& options,
    FunctionRef<std::shared_ptr<Artifact>(const std::shared_ptr<Graph>& piece)> compile);

/// The graph without code, operation by operation.
std::shared_ptr<Artifact> op_by_op(const std::shared_ptr<Graph>& graph);

}  // namespace tenon
