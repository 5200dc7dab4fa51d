// Runs .pt2 models: compiles the imported graph with a backend once and applies the plan of
// outputs. What tenon::load and the verbs of the command line stand on.
//
//   auto program = std::make_shared<const Pt2Program>(read_pt2("bert.pt2"));
//   ModelRunner runner(program, {.backend = "inductor"});
//   std::vector<Tensor> outputs = runner.run(leaves);
//
// The graph is symbolic, so other sizes run the same code; it is compiled anew only where the
// backend asked for a condition on sizes that a call does not fulfil, or where inputs share memory
// that the graph writes (shared_memory.h). Where a body is recorded, the nodes of the graph become
// part of it instead (run_in_body.h).
//
// Threads: run and compile may be called from any thread. One compiles at a time, and calls of a
// model that writes its weights take turns.
#pragma once

#include "formats/pt2/pt2_call.h"
#include "graph/artifact.h"
#include "model/saved_model.h"
#include "model/shared_memory.h"
#include "report/unit.h"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

/// The value of an expression over the symbols of a graph that its inputs give, which are in the
/// order of its bindings; nothing where one is inside that only the run knows.
std::optional<SymValue> value_in_call(const Expr* expr, const Graph& graph,
                                      std::span<const int64_t> symbols);
/// Whether a condition holds in a call. Those over symbols that only the run knows are the graph's
/// own to assert.
bool holds(const Expr* condition, const Graph& graph, std::span<const int64_t> symbols);

struct RunnerOptions {
  std::string backend;  ///< empty: the default one
  std::string mode;
  std::string options_toml;
  bool random_weights = false;
  /// Calls are recorded on the tape, and parameters need gradients, so that the loss can be
  /// differentiated. The weights are the runner's own.
  bool training = false;
  Device device;  ///< where weights are and calls run
};

using NamedTensorMap = std::map<std::string, Tensor>;

/// Marks the parameters of a model as leaves that need a gradient, and prepares its graph for them.
void want_gradients(const formats::ImportedModel& model);
/// Differentiates the first output, which must have one element: the gradients of the parameters by
/// FQN, a tied one under each name. The outputs lose their tape.
NamedTensorMap gradients_of(const formats::ImportedModel& model, std::vector<Tensor>& outputs);
/// Moves the parameters against their gradients by `rate` times them.
void sgd_step(const formats::ImportedModel& model, double rate);

class ModelRunner {
 public:
  ModelRunner(std::shared_ptr<const formats::Pt2Program> program, RunnerOptions options);
  /// Of a file of compiled code, which is loaded here; other sizes than it serves are compiled.
  explicit ModelRunner(SavedModel saved);

  /// One call. Leaves that the model writes are written; results are the leaves of the outputs in
  /// order, undefined where the model returns None or a string. `gradients` receives those that the
  /// graph computes itself, by FQN.
  std::vector<Tensor> run(std::span<const Tensor> leaves, NamedTensorMap* gradients = nullptr);
  /// One call and a backward pass from its first result, which must have one element: the gradients
  /// of the parameters by FQN, a tied one under each name. Needs `training`.
  std::vector<Tensor> run_with_gradients(std::span<const Tensor> leaves, NamedTensorMap& gradients);
  /// Moves the parameters against the gradients of the last such call, by `rate` times them.
  void sgd_step(double rate) { tenon::sgd_step(model_, rate); }
  Device device() const { return options_.device; }
  /// Compiles for the sizes of `leaves`, if that was not done yet.
  void compile(std::span<const Tensor> leaves);
  /// Weights as in the file, for models that write their buffers. Not beside other calls.
  void reset_weights();

  /// Writes the model with its weights as they are and the code that was compiled so far.
  void save(const std::string& path);

  size_t compiles() const;
  double compile_ms() const;  ///< of all compiles together
  /// The present value of a parameter, buffer or constant; undefined for an unknown name.
  Tensor weight(const std::string& name) const;
  const formats::ImportedModel& model() const { return model_; }
  const formats::Pt2Program& program() const { return *program_; }
  /// The name that compiles, as it was given or as the file says.
  const std::string& backend() const { return options_.backend; }
  /// What the backend tells of its newest code (TN_DESC_*), "" before the first run.
  std::string describe(int32_t what) const;

 private:
  /// What a call asks of its code besides sizes.
  struct Kind {
    std::vector<bool> needs;  ///< by input of the graph: the given one needs a gradient; or empty
    CallMemory memory;
    friend bool operator==(const Kind&, const Kind&) = default;
  };
  struct Version {
    formats::Pt2SymbolValues hints;  ///< of the graph, where they are not the archive's
    Kind kind;
    std::shared_ptr<Graph> graph;
    std::shared_ptr<Artifact> artifact;
    std::vector<const Expr*> conditions;
  };
  std::vector<Tensor> run_in_body(std::span<const Tensor> leaves, NamedTensorMap* gradients);
  std::vector<Tensor> run_outside_body(std::span<const Tensor> leaves, NamedTensorMap* gradients);
  std::shared_ptr<Graph> graph_for(const formats::Pt2SymbolValues& hints, const Kind& kind) const;
  std::vector<bool> needs_of(const formats::BoundCall& call) const;
  CallMemory memory_of(const formats::BoundCall& call, std::span<const Overlap> overlaps) const;
  bool may_compile_for(std::span<const Overlap> overlaps) const;
  std::shared_ptr<const Version> find_version(const formats::BoundCall& call,
                                              const Kind& kind) const;
  std::vector<std::pair<std::string, Tensor>> live_weights() const;
  std::shared_ptr<const Version> version_for(const formats::BoundCall& call,
                                             std::span<const Overlap> overlaps);
  std::shared_ptr<const Version> make_version(const formats::BoundCall& call, const Kind& kind);
  std::shared_ptr<Artifact> compile_version(const Version& version);
  void tell_unit(const Version& version, const formats::BoundCall& call) const;

  std::shared_ptr<const formats::Pt2Program> program_;
  RunnerOptions options_;
  formats::ImportedModel model_;
  MemoryWritten memory_written_;
  bool writes_weights_ = false;
  std::mutex writing_;            ///< held during calls that write weights
  mutable std::mutex compiling_;  ///< guards the members below
  std::vector<std::shared_ptr<const Version>> versions_;
  report::Unit* unit_ = nullptr;  ///< what a report tells of it; null: none is wanted
  size_t n_loaded_ = 0;           ///< versions that came with their code
  uint32_t number_ = 0;           ///< the first part of compile ids
  double compile_ms_ = 0;
};

}  // namespace tenon
