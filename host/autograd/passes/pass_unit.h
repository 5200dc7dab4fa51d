// A backward pass over the tape of a compiled body, as one unit of its operations.
#pragma once

#include "autograd/engine.h"
#include "core/function_ref.h"

#include <span>

namespace tenon::autograd {

/// Runs a pass that adds up the gradients of leaves, by `run`, unless the body is followed and all
/// of its operations are done with that. `run` gives the nodes of leaves in the order in which it has
/// called them; none where it has not called every node.
void run_as_unit(const PassRequest& pass, FunctionRef<std::span<const Node* const>()> run);

/// Does such a pass of a body whose nodes are due, where the recording has it here. False: it has to be
/// run, and nothing is done.
bool passes_unwalked(std::span<const Tensor> outputs, std::span<const Tensor> gradients,
                     const EngineOptions& options);

}  // namespace tenon::autograd
