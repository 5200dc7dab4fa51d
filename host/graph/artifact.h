// Artifacts: compiled graphs, whoever compiled them.
#pragma once

#include "graph/graph.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tenon {

/// A compiled graph. Threads: calls may run at once. Keeps its plugin alive.
class Artifact {
 public:
  virtual ~Artifact() = default;
  /// Runs. `inputs` has one entry per graph input, borrowed, null for scalars; with `steal` the
  /// callee owns the entries, releases each after its last use and nulls it. `syms` has the values
  /// of graph.symbols in order; data-dependent ones are left 0. Throws BackendError with the
  /// plugin's message.
  virtual void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
                    std::span<Tensor> outputs, bool steal = false) = 0;
  /// Text of one kind (TN_DESC_*), empty when the backend has none.
  virtual std::string describe(int32_t what) const = 0;
  /// Conditions on symbols that the backend asked for while compiling (tn_sym_api.guard).
  std::vector<const Expr*> guards;
};

/// The interpreter as an artifact.
std::shared_ptr<Artifact> interpreter_artifact(std::shared_ptr<const Graph> graph);

}  // namespace tenon
