// Runs a graph that was saved on its own: its inputs are what the graph says.
#pragma once

#include "model/model_runner.h"
#include "model/shared_memory.h"
#include "report/unit.h"

namespace tenon {

/// The graph with other examples for its symbols, in the order of graph.symbols. `text`: all of it
/// as text.
std::shared_ptr<Graph> with_examples(const Graph& graph, const std::string& text,
                                     std::span<const int64_t> symbols);

class GraphRunner {
 public:
  GraphRunner(std::shared_ptr<Graph> graph, RunnerOptions options);

  void compile();
  /// One entry per graph input; numbers are 0-dim tensors.
  std::vector<Tensor> run(std::span<const Tensor> inputs);
  /// Seeded inputs with the sizes that the graph names as examples and the strides that it
  /// promises.
  std::vector<Tensor> random_inputs(uint64_t seed = 0) const;
  /// The same for other values of the symbols.
  std::vector<Tensor> random_inputs(std::span<const int64_t> symbols, uint64_t seed) const;
  /// The inputs on the devices that the graph names for them.
  std::vector<Tensor> placed(std::vector<Tensor> inputs) const;
  /// What the inputs say of the symbols; 0 for what only the run knows.
  std::vector<int64_t> symbols_of(std::span<const Tensor> inputs) const;
  /// The input of that name, with or without '%', or `in.N`; throws UserError when there is none.
  size_t find(const std::string& name) const;

  double compile_ms() const { return compile_ms_; }
  std::string describe(int32_t what) const {
    return versions_.empty() ? "" : versions_.back().artifact->describe(what);
  }

 private:
  struct Version {
    std::shared_ptr<Graph> graph;
    std::shared_ptr<Artifact> artifact;
    std::vector<const Expr*> conditions;
  };
  /// Throws UserError for an input that is missing, or of another dtype, rank or size.
  void check_input(size_t i, const Tensor& input) const;
  void check_sizes(std::span<const Tensor> inputs, std::span<const int64_t> symbols) const;
  Version make_version(std::shared_ptr<Graph> graph);
  const Version& version_for(std::span<const int64_t> symbols);

  std::shared_ptr<Graph> graph_;
  std::string text_;                  ///< of the graph with symbols, as it was given
  std::vector<const Expr*> assumed_;  ///< ranges and conditions that the graph states
  std::vector<bool> is_written_;      ///< by input
  RunnerOptions options_;
  MemoryWritten memory_written_;
  report::Unit* unit_;  ///< what a report tells of it; null: none is wanted
  std::vector<Version> versions_;
  double compile_ms_ = 0;
};

}  // namespace tenon
