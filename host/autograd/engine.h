// The engine: walks the tape from roots to leaves.
#pragma once

#include "autograd/node.h"

namespace tenon::autograd {

struct EngineOptions {
  bool keep_graph = false, create_graph = false;
  bool accumulate = true;  ///< into the gradients of leaves; else only `wanted` is computed
};

/// What the innermost pass of this thread was asked for; null outside of one.
const EngineOptions* current_pass();

/// Sends `grads` into `roots` and on through the tape; gives what arrives at the `wanted` edges
/// (undefined where nothing does). With `accumulate` and wanted edges, only those leaves add up.
/// Gradients of one edge are added in the order in which nodes run: the highest sequence number
/// first. Throws what nodes and hooks throw; the tape can then not be used again where nodes have
/// run. Any thread; nested calls, from hooks and nodes, are passes of their own.
std::vector<Tensor> run_engine(const std::vector<Edge>& roots, std::vector<Tensor> grads,
                               const std::vector<Edge>& wanted, EngineOptions options);

}  // namespace tenon::autograd
