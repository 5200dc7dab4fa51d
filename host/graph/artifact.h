// Artifacts: compiled graphs, whoever compiled them.
#pragma once

#include "graph/graph.h"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tenon {

struct SavedPart;

/// A flag of the host that a plugin read while it compiled, and what it was (config::value_text).
struct FlagRead {
  std::string key, value;
};

/// A compiled graph as data: what another process makes it from again.
struct SavedArtifact {
  enum class Kind : uint8_t {
    interpreter,  ///< the graph, run node by node
    plugin,       ///< what a plugin saved of the graph's code, in `bytes`
    functional,   ///< effects and aliases around the only one of `parts`, as `bytes` say
    pieces,       ///< `parts` one after the other
    bodies        ///< the graph, run node by node; bodies of control flow are `parts`
  };
  Kind kind = Kind::interpreter;
  std::shared_ptr<const Graph> graph;    ///< what was compiled
  std::string backend;                   ///< of kind plugin
  std::string fingerprint;               ///< of kind plugin, as a digest; empty: not known
  std::vector<FlagRead> flags;           ///< of kind plugin: what its code depends on
  std::vector<uint32_t> mutated_inputs;  ///< that a plugin's code writes
  std::string bytes;
  std::vector<SavedPart> parts;
};

struct SavedPart {
  SavedArtifact code;
  std::vector<NodeId> nodes = {};  ///< of kind pieces: those of the graph that it runs
  std::string title = {};          ///< of kind pieces, for texts
  bool is_region = false;          ///< of kind pieces
  uint32_t body = 0;               ///< of kind bodies: its place among the graph's
};

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
  /// The same, but `outputs` are tensors that the results are written into: of the sizes and strides
  /// that the graph says, each apart from the inputs or the one that the request says it aliases.
  /// Only where fills_given_outputs().
  virtual void fill(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
                    std::span<Tensor> outputs);
  virtual bool fills_given_outputs() const { return false; }
  /// Text of one kind (TN_DESC_*), empty when the backend has none.
  virtual std::string describe(int32_t what) const = 0;
  /// Throws UserError unsupported, with who cannot be saved, unless all of it can.
  virtual SavedArtifact save() const;
  /// Conditions on symbols that the backend asked for while compiling (tn_sym_api.guard).
  std::vector<const Expr*> guards;
};

/// Compiled code of sub-graphs; see interpret.h.
using BodyCode = std::map<const Graph*, std::shared_ptr<Artifact>>;
/// The interpreter as an artifact; bodies of control flow run as `code` where it has them.
std::shared_ptr<Artifact> interpreter_artifact(std::shared_ptr<const Graph> graph,
                                               BodyCode code = {});

}  // namespace tenon
