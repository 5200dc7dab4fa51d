// Running what did not fail.
#include "capture/rescue.h"

#include "capture/errors/error_of_run.h"
#include "capture/inputs.h"
#include "capture/recording.h"
#include "capture/tape/run_again.h"
#include "core/random.h"
#include "core/tensor/owner_thread.h"
#include "core/tensor/stand_in.h"
#include "graph/interpret.h"
#include "graph/passes/aliasing.h"
#include "ops/modes/autocast.h"

#include <algorithm>
#include <optional>

namespace tenon {

namespace {

// What running a segment changes besides its outputs.
class StateBefore {
 public:
  StateBefore(const Segment& segment, std::span<detail::TensorHead*> inputs)
      : graph_(*segment.graph), inputs_(inputs) {
    if (!segment.writes) return;
    random_ = current_rng_state();
    for (detail::TensorHead* head : inputs) versions_.push(version_of(head));
  }

  // Whether all is as it was, so that the operations may run. Draws are taken back for that.
  bool is_there_again() const {
    bool draws = draws_numbers(graph_);
    if (has_side_effects(graph_) || (draws && !random_)) return false;
    for (size_t i = 0; i < versions_.size(); ++i)
      if (version_of(inputs_[i]) != versions_[i]) return false;
    if (draws) restore_rng_state(*random_);
    return true;
  }

 private:
  static uint64_t version_of(const detail::TensorHead* head) {
    return head ? *static_cast<const TensorImpl*>(head)->version : 0;
  }

  const Graph& graph_;
  std::span<detail::TensorHead*> inputs_;
  detail::LeafArray<uint64_t, 24> versions_;  // by input
  std::optional<RngState> random_;
};

void compute_until_failure(const std::shared_ptr<Graph>& graph,
                           std::span<detail::TensorHead*> inputs, std::span<const int64_t> symbols,
                           std::span<Tensor> outputs) {
  std::vector<int64_t> words(symbols.begin(), symbols.end());
  words.resize(graph->symbols.size());
  try {
    Interpreter(graph).run(inputs, words, outputs);
  } catch (const std::exception&) {
    return;  // the caller has this error already
  }
}

}  // namespace

bool is_refusal_in_flight() {
  if (ends_thread()) return false;
  try {
    throw;
  } catch (const UserError& error) {
    return error.code() == ErrorCode::graph_break || error.code() == ErrorCode::unsupported;
  } catch (...) {
    return false;
  }
}

std::exception_ptr run_or_rescue(FunctionRef<void()> code, const Segment& segment,
                                 std::span<detail::TensorHead*> inputs,
                                 std::span<const int64_t> symbols, std::span<Tensor> outputs,
                                 FunctionRef<const Tensor&(size_t)> fake_of) {
  const StateBefore before(segment, inputs);
  KnownWhenFailed known(outputs);
  CastsOfBody none(/*keeps=*/false);  // the code is not the body's
  try {
    code();
    return nullptr;
  } catch (...) {
    if (ends_thread()) throw;
    std::exception_ptr failure = std::current_exception();
    ErrorOfRun::note(failure, segment.graph, inputs, symbols, outputs.size(), fake_of);
    if (known.are_all_given()) return failure;
    std::ranges::fill(outputs, Tensor());
    if (!outputs.empty() && before.is_there_again())
      compute_until_failure(segment.graph, inputs, symbols, outputs);
    return failure;
  }
}

void give_up(const TraceInputs& inputs, const detail::Body& body, std::span<const Tensor> lost) {
  for (const ImplicitInput& met : inputs.implicit) {
    if (!met.address) continue;
    auto* variable = const_cast<Tensor*>(met.address);
    // It may be known from another call, whose closure lay elsewhere.
    if (!locate(*variable, body, inputs.modules.all()).address) continue;
    auto is_held = [&](const Tensor& t) { return variable->defined() && same_head(t, *variable); };
    if (std::ranges::any_of(lost, is_held)) *variable = met.tensor;
  }
  for (const Tensor& fake : lost) mark_lost(fake);
}

}  // namespace tenon
