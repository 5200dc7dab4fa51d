// Runs .pt2 models: compiles the imported graph with a backend once and applies the plan of
// outputs.
//
//   auto program = std::make_shared<const Pt2Program>(read_pt2("bert.pt2"));
//   ModelRunner runner(program, {.backend = "inductor"});
//   std::vector<Tensor> outputs = runner.run(leaves);
//
// The graph is symbolic, so other sizes run the same code; it is compiled anew only where the
// backend asked for a condition on sizes that a call does not fulfil.
// Threads: one thread at a time.
#pragma once

#include "formats/pt2_call.h"
#include "graph/artifact.h"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tenon {

struct RunnerOptions {
  std::string backend;  ///< empty: the default one
  std::string mode;
  std::string options_toml;
  bool random_weights = false;
};

class ModelRunner {
 public:
  ModelRunner(std::shared_ptr<const formats::Pt2Program> program, RunnerOptions options);

  /// One call. Leaves that the model writes are written; results are the leaves of the outputs in
  /// order, undefined where the model returns None or a string.
  std::vector<Tensor> run(std::span<const Tensor> leaves);
  /// Compiles for the sizes of `leaves`, if that was not done yet.
  void compile(std::span<const Tensor> leaves);
  /// Weights as in the file, for models that write their buffers.
  void reset_weights();

  size_t compiles() const { return versions_.size(); }
  double compile_ms() const { return compile_ms_; }  ///< of all compiles together
  /// Gradients that the graph computes itself, of the last run, by FQN.
  const std::map<std::string, Tensor>& gradients() const { return gradients_; }
  /// The present value of a parameter, buffer or constant; undefined for an unknown name.
  Tensor weight(const std::string& name) const;
  const formats::ImportedModel& model() const { return model_; }
  /// What the backend tells of its newest code (TN_DESC_*), "" before the first run.
  std::string describe(int32_t what) const;

 private:
  struct Version {
    std::shared_ptr<Graph> graph;
    std::shared_ptr<Artifact> artifact;
    std::vector<const Expr*> conditions;
  };
  Version& version_for(const formats::BoundCall& call);
  Version make_version(const formats::BoundCall& call);

  std::shared_ptr<const formats::Pt2Program> program_;
  RunnerOptions options_;
  formats::ImportedModel model_;
  std::vector<Version> versions_;
  std::map<std::string, Tensor> gradients_;
  double compile_ms_ = 0;
};

/// The model's results and effects in double precision, by eager ops: the measure of rounding.
/// Weights and floating inputs are converted, and casts inside the graph go to f64.
struct DoubleRun {
  std::vector<Tensor> outputs;
  std::vector<Tensor> leaves;  ///< after the call
  std::map<std::string, Tensor> weights, gradients;
};
DoubleRun run_in_double(const formats::Pt2Program& program, std::span<const Tensor> leaves);

/// Normal numbers, integers from 0 to 9, or bools; the same for the same seed.
Tensor random_tensor(IntList sizes, Dtype dtype, uint64_t seed);

/// Seeded inputs that fit the signature: normal numbers, small non-negative integers.
std::vector<Tensor> random_leaves(const formats::ImportedModel& model,
                                  const formats::Pt2Program& program, uint64_t seed = 0);

}  // namespace tenon
