// One version of a callable: the conditions under which it serves a call, and the code behind them.
#pragma once

#include "capture/recording.h"
#include "graph/artifact.h"
#include "guards/overlap.h"

#include <tenon/detail/compiled.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

struct Entry {
  /// What a recording of this call gives: all but the code.
  Entry(std::string id, Recording recording, const detail::Leaves& leaves);

  std::string id;                      ///< "0/1": site and attempt
  Recording recorded;                  ///< its guards and its graph, and how results are made
  std::shared_ptr<Artifact> artifact;  ///< null: nothing to compute
  std::vector<TensorGuard> implicit_guards;
  SymProgram output_program;  ///< values of the symbolic output numbers
  size_t n_graph_outputs = 0;
  bool writes_inputs = false;              ///< the graph writes tensors in place
  std::vector<Overlap> recorded_overlaps;  ///< then: what the code takes for granted
  /// Older versions that go before this one: what they serve it does not.
  std::vector<const Entry*> excluded;
  std::atomic<uint64_t> hits{0}, next_check{1};  ///< see verify.h

  /// The body runs on every call.
  bool replays() const { return !recorded.break_reason.empty(); }
  /// Runs the code for these arguments.
  void run(const detail::Leaves& leaves, detail::CallResult& result) const;
  /// Whether this version serves a call with these arguments.
  bool serves(const detail::Leaves& leaves) const;
  /// Why it does not, in one line.
  std::string why_not(const detail::Leaves& leaves) const;
  /// The tensors of a call that share elements, by place among the inputs of the graph.
  std::vector<Overlap> overlaps(const detail::Leaves& leaves) const;

 private:
  const Tensor& input_tensor(const ValueOrigin& origin, const detail::Leaves& leaves) const;
  // Of an output or a logged tensor; what nodes made is among `made`.
  Tensor tensor_at(const ValueOrigin& origin, const detail::Leaves& leaves,
                   std::span<const Tensor> made) const;
  // Whether the tensors that the body captured are still those (or like those) that were recorded.
  bool captured_tensors_hold() const;
  bool excluded_serves(const detail::Leaves& leaves) const;
  bool modes_hold() const;
  bool gradients_are_missing(const detail::Leaves& leaves) const;
  void run_code(const detail::Leaves& leaves, std::span<const int64_t> symbols,
                std::span<Tensor> made) const;
  void run_logs(const detail::Leaves& leaves, std::span<const Tensor> made) const;
  void leave_gradients(const detail::Leaves& leaves, std::span<const Tensor> made,
                       detail::CallResult& result) const;
  void give_numbers(std::span<const int64_t> symbols, std::span<const Tensor> made,
                    detail::CallResult& result) const;
};

}  // namespace tenon
