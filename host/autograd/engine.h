// The engine: walks the tape from roots to leaves.
#pragma once

#include "autograd/node.h"

#include <atomic>
#include <span>

namespace tenon::autograd {

struct EngineOptions {
  bool keep_graph = false, create_graph = false;
  bool accumulate = true;  ///< into the gradients of leaves; else only `wanted` is computed
};

/// Whether passes of this thread look for NaN, and tell where nodes were made.
struct AnomalyMode {
  bool enabled = false, check_nan = true;
};
AnomalyMode& anomaly_mode();

/// What the innermost pass of this thread was asked for; null outside of one.
const EngineOptions* current_pass();

/// A pass that was asked for.
struct PassRequest {
  const std::vector<Edge>& roots;
  std::vector<Tensor>& grads;
  const std::vector<Edge>& wanted;
  const EngineOptions& options;
  std::span<const Tensor> outputs = {};  ///< whose edges `roots` are, where that is known
};
/// Does a whole pass in the engine's place, inside of what `current_pass` and `queue_callback` see,
/// and gives what arrives at the wanted edges; false, with nothing done, leaves it to the engine.
/// Filled in by tape/api.cpp.
extern bool (*take_pass_slot)(const PassRequest& request, std::vector<Tensor>& captured);
/// How many ask for the slot to be called; while it is 0 passes do not look further.
extern std::atomic<int32_t> n_pass_takers;
/// The rest of a pass that was begun in the engine's place, or a pass of its own; no callbacks.
std::vector<Tensor> run_nodes(const std::vector<Edge>& roots, std::vector<Tensor> grads,
                              const std::vector<Edge>& wanted, EngineOptions options);

// ---- the parts of running a node, for those who run some in the engine's place

/// Hooks of inputs, in order of registration; then gradients are kept where they are asked for.
void run_tensor_hooks(Node& node, std::vector<Tensor>& grads);
void run_before_hooks(Node& node, std::vector<Tensor>& grads);
/// Calls the function of a locked node; one output for each edge.
std::vector<Tensor> call_function(Node& node, std::vector<Tensor> grads, bool keep_graph);
void run_after_hooks(Node& node, std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs);
/// Adds `grad` to what is kept for this input.
void retain(Node& node, size_t input, const Tensor& grad);

/// Sends `grads` into `roots` and on through the tape; gives what arrives at the `wanted` edges
/// (undefined where nothing does). With `accumulate` and wanted edges, only those leaves add up.
/// Gradients of one edge are added in the order in which nodes run: the highest sequence number
/// first. Throws what nodes and hooks throw; the tape can then not be used again where nodes have
/// run. Any thread; nested calls, from hooks and nodes, are passes of their own.
std::vector<Tensor> run_engine(const std::vector<Edge>& roots, std::vector<Tensor> grads,
                               const std::vector<Edge>& wanted, EngineOptions options,
                               std::span<const Tensor> outputs = {});

}  // namespace tenon::autograd
