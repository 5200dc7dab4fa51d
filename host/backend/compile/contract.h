// What a compiled graph promises at each call, and what is told when it breaks it (P23).
//
// Always checked, since it costs a comparison an output: every output is there and has dtype and
// rank of the graph; those of functional graphs, which other code goes on with, are contiguous where
// it says so; outputs have a history where ops of the host lead from an input that needs a gradient
// to them. What an op of a library or plugin gives may have none. With plugins.check_calls also:
// sizes, strides and device of the outputs; that they lie in memory of their own where the graph
// says so; that inputs which the graph does not write are left alone; that no handle is used after
// the call that lent it, nor released by it.
#pragma once

#include "backend/backend.h"
#include "backend/life/plugin_call.h"
#include "core/dispatch.h"

#include <tenon/plugin.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tenon {

/// The sizes or strides that a graph says an output has, at a call with these values of symbols; those
/// that only data tells as they were found.
std::vector<int64_t> as_the_graph_says(const Graph& graph, const Dims& said,
                                       std::span<const int64_t> syms,
                                       std::span<const int64_t> found);

/// The promises of one artifact. Threads: read-only after it is made.
class CallContract {
 public:
  explicit CallContract(const CompileRequest& request);

  /// Whether the outputs are what every call checks; false also where `problem` knows better.
  bool holds(std::span<tn_tensor* const> outputs) const {
    bool good = true;
    for (size_t i = 0; i < outputs.size(); ++i) good &= fits(expected_[i], outputs[i]);
    return good;
  }
  /// What is wrong with outputs that do not hold; "" when nothing is: while gradients are off no
  /// output has a history. `inputs`: of the call, null where they have changed hands.
  std::string problem(std::span<tn_tensor* const> outputs,
                      std::span<detail::TensorHead* const> inputs) const;
  /// What is wrong with sizes, strides and devices, given the values of the symbols; "" when
  /// nothing is.
  std::string shape_problem(std::span<tn_tensor* const> outputs,
                            std::span<const int64_t> syms) const;
  /// Which outputs share memory that the graph keeps apart, with each other or with inputs that are
  /// the caller's after the call; "" when none do.
  std::string memory_problem(std::span<tn_tensor* const> outputs,
                             std::span<tn_tensor* const> inputs) const;

  /// Whether plugins.check_calls was on when the graph was compiled.
  bool is_checking() const { return checking_; }
  bool may_write(size_t input) const { return written_[input]; }
  /// Whether a call may be given other handles of the same tensors.
  bool may_lend_copies() const { return !grad_; }
  /// "input 1 (%y)".
  std::string input_name(size_t input) const;

 private:
  /// One output; rank -1 is a hole, -2 a number, of which nothing is asked.
  struct Expected {
    int32_t dtype = 0, rank = -2;
    uint32_t flags = 0;             ///< TN_T_ that must be set
    std::vector<uint32_t> depends;  ///< the inputs that give it a history if they need a gradient
  };
  static bool fits(const Expected& e, const tn_tensor* t) {
    if (e.rank < 0) return true;
    return t && t->dtype == e.dtype && t->ndim == e.rank && (t->flags & e.flags) == e.flags;
  }
  std::string stride_problem(size_t output, const tn_tensor& t,
                             std::span<const int64_t> expected) const;
  std::string output_problem(size_t output, const tn_tensor* t) const;
  std::string output_name(size_t output) const;

  std::shared_ptr<const Graph> graph_;
  std::vector<Expected> expected_;
  std::vector<bool> written_;  ///< by input
  /// By output, while calls are checked: the memory that the call makes for it, as a class of
  /// AliasClasses, or no_value.
  std::vector<uint32_t> made_memory_;
  bool checking_ = false, grad_ = false;
};

/// What code computes on threads of its own has histories there, whoever has called: with gradients
/// off nobody asked for them. What is an input itself stays what it is.
inline void drop_new_histories(std::span<Tensor> outputs,
                               std::span<detail::TensorHead* const> inputs) {
  auto has_history = [](const Tensor& t) {
    return t.defined() && (t.head()->flags & TN_T_REQUIRES_GRAD);
  };
  if (thread_modes.grad_enabled || std::ranges::none_of(outputs, has_history)) [[likely]]
    return;
  for (Tensor& out : outputs)
    if (has_history(out) && std::ranges::find(inputs, out.head()) == inputs.end())
      out = out.detach();
}

/// One call under plugins.check_calls. Lends handles of its own, which are retired at the end.
class CheckedCall {
 public:
  /// `call` must outlive it; its inputs are replaced until finish().
  CheckedCall(const CallContract& contract, PluginNet& net, tn_call& call);
  ~CheckedCall();
  CheckedCall(const CheckedCall&) = delete;
  /// After the call: what was broken, or "". Puts the inputs back.
  std::string finish();

 private:
  struct Lent;
  void retire();

  const CallContract& contract_;
  PluginNet& net_;
  tn_call& call_;
  tn_tensor** inputs_;
  std::vector<Lent> lent_;
  std::vector<tn_tensor*> handles_;
};

/// Why an artifact that `compile` gave cannot be used; "" when it can.
std::string artifact_problem(const tn_artifact* artifact);

/// Throws the P23 of a handle that was lent for a call which has returned; see CheckedCall.
[[noreturn]] void fail_retired(const tn_tensor* handle);
/// Handles of plugins come through here. Retired ones have no size.
inline void check_alive(const tn_tensor* handle) {
  if (handle && handle->struct_size == 0) [[unlikely]]
    fail_retired(handle);
}

}  // namespace tenon
