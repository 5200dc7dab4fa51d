// One version of a callable: the conditions under which it serves a call, and the code behind them.
#pragma once

#include "capture/follow/walk.h"
#include "capture/recording.h"
#include "config/config.h"
#include "graph/artifact.h"
#include "guards/overlap.h"
#include "runtime/constants.h"
#include "runtime/courses.h"

#include <tenon/detail/compiled.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

/// What a call brings: its arguments, and where its body has run the captured tensors, by slot, and
/// the words of the numbers that it has given.
struct CallInputs {
  const detail::Leaves& leaves;
  std::span<const Tensor> slots = {};
  std::span<const int64_t> numbers = {};
  /// Of a call that was recorded, with its texts; null: as in the version.
  const std::vector<LogCall>* log_calls = nullptr;
};

/// Where a captured tensor is read from.
struct CapturedHandle {
  explicit CapturedHandle(const ImplicitInput& met);

  const Tensor* at;  ///< null: it is the gradient of another one
  bool is_kept;      ///< it is the entry's own: valid while the program keeps the tensor, too
  /// The tensor that the recording has met, while the entry keeps it, and its n_changes then.
  const TensorImpl* met = nullptr;
  uint32_t met_changes = 0;

  /// Whether it holds what the recording has met, as it was then.
  bool is_as_met() const { return met && impl_of(*at) == met && met->n_changes == met_changes; }
};

struct Entry {
  /// What a recording of this call gives: all but the code.
  Entry(std::string id, Recording recording, const detail::Leaves& leaves);

  std::string id;                      ///< "0/1": site and attempt
  config::ThreadPatches flags;         ///< that it was recorded under
  Recording recorded;                  ///< its guards and its graph, and how results are made
  std::shared_ptr<Artifact> artifact;  ///< null: nothing to compute
  std::unique_ptr<Path> path;          ///< null: later runs cannot be compared with the recording
  std::string why_no_path;
  std::vector<SlotGuard> implicit_guards;
  PathVersion version{};  ///< where there is a path
  std::vector<CapturedHandle> captured_handles;
  SymProgram output_program;  ///< values of the symbolic output numbers
  size_t n_graph_outputs = 0;
  bool gives_graph_outputs = false;  ///< they are the results, one by one
  bool takes_slots = false;    ///< calls bring what the body captured; nothing of it is kept here
  bool writes_inputs = false;  ///< the graph writes tensors in place
  std::vector<Overlap> recorded_overlaps;  ///< then: what the code takes for granted
  Courses courses;                         ///< of a body with graph breaks
  std::shared_ptr<Constants> constants;    ///< of its calls
  /// Older versions that go before this one: what they serve it does not.
  std::vector<std::shared_ptr<const Entry>> excluded;
  std::atomic<uint64_t> hits{0}, next_check{1};  ///< see verify.h
  /// Calls in a row whose bodies left the path when no version could be added, and calls to come that
  /// do not try it.
  std::atomic<uint32_t> n_left{0}, n_rest{0};

  /// The body runs on every call.
  bool replays() const { return !recorded.break_reason.empty(); }
  /// Runs the code for these inputs.
  void run(const CallInputs& in, detail::CallResult& result) const;
  /// Whether this version is for calls with such arguments; where the body runs, what it does with
  /// plain values is seen then.
  bool accepts(const detail::Leaves& leaves) const;
  /// Whether it serves such a call without its body.
  bool serves(const detail::Leaves& leaves) const;
  /// Whether it serves the call of a body that has followed its path.
  bool serves_followed(const CallInputs& in) const;
  /// Whether what the program guards is as it was; asked where the body does not run.
  bool program_guards_hold() const {
    return std::ranges::all_of(recorded.program_guards, [](const auto& g) { return g.holds(); });
  }
  /// Whether a call has as many arguments of each kind, which is all that code needs to begin.
  bool has_like_leaves(const detail::Leaves& leaves) const {
    const GuardSet& g = recorded.guards;
    return g.structure == leaves.structure && g.tensors.size() == leaves.tensors.size() &&
           g.numbers.size() == leaves.numbers.size() && g.plain.size() == leaves.plain.size();
  }
  /// Why it does not serve, in one line.
  std::string why_not(const detail::Leaves& leaves) const;
  /// Keeps another course of a body with graph breaks, unless it cannot be followed.
  void add_course(Recording recording, bool is_first = false);
  /// A body has left the path, and no version may be added: after some, it is not tried for a while.
  void note_left();
  bool rests();

 private:
  // The tensors of a call that share elements, by place among the inputs of the graph.
  std::vector<Overlap> overlaps(const CallInputs& in) const;
  const Tensor& input_tensor(const ValueOrigin& origin, const CallInputs& in) const;
  // Of an output or a logged tensor; what nodes made is among `made`.
  Tensor tensor_at(const ValueOrigin& origin, const CallInputs& in,
                   std::span<const Tensor> made) const;
  // Whether the tensors that the body captured are still those (or like those) that were recorded.
  bool captured_tensors_hold(const detail::Leaves& leaves) const;
  bool excluded_serves(const detail::Leaves& leaves) const;
  bool modes_hold() const;
  bool gradients_are_missing(const detail::Leaves& leaves) const;
  void run_code(const CallInputs& in, std::span<const int64_t> symbols,
                std::span<Tensor> made) const;
  void run_logs(const CallInputs& in, std::span<const Tensor> made) const;
  void leave_replaced_gradients(const CallInputs& in, std::span<detail::TensorHead*> inputs,
                                std::span<const int64_t> symbols) const;
  void leave_gradients(const CallInputs& in, std::span<const Tensor> made,
                       detail::CallResult& result) const;
  void give_numbers(std::span<const int64_t> symbols, std::span<const Tensor> made,
                    detail::CallResult& result) const;
};

}  // namespace tenon
