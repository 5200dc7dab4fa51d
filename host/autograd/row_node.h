// The node of a recorded op: what its rules need, kept until the backward pass comes by.
#pragma once

#include "autograd/saved/saved_value.h"
#include "autograd/vjp_plan.h"

namespace tenon::autograd {

/// That of the node that an op makes: "MulBackward" for mul and mul_.
std::string node_name(const OpEntry& op);

class RowNode final : public Node {
 public:
  RowNode(const OpEntry& op, const VjpPlan& plan) : op_(op), plan_(plan) {}

  /// Makes the edges of the differentiable arguments; before the call, since it may write them.
  void connect(const CallArgs& call);
  /// Keeps the arguments that the rules need, before the call; `written` (an argument) as a copy.
  void save_arguments(const CallArgs& call, int written);
  /// Keeps the results that the rules need and makes the inputs, after the call.
  void save_results(const CallArgs& call);

  std::string name() const override;
  std::vector<Tensor> apply(std::vector<Tensor> grads) override;
  void release() override;
  void take_symbols(const Graph& graph, const tenon::Node& made) override;
  bool collect(Collector& collector) const override;
  std::string origin() const override { return anomaly_trace.empty() ? "" : anomaly_trace[0]; }

 private:
  bool wants(const VjpPlanRule& rule) const;
  bool wants_argument(uint8_t arg) const { return wanted_ >> arg & 1; }
  bool keeps(const VjpUse& use) const;
  bool may_differ(const VjpUse& use) const;
  void save_result(const VjpUse& use, const Tensor& result);
  Tensor gradient(size_t i, const VjpUse& use, const std::vector<Tensor>& grads) const;
  void add_parameter(const VjpPlanRule& rule, const VjpUse& use, const std::vector<Tensor>& grads,
                     bool* needs, CallMemory& call);
  void put_gradients(const VjpPlanRule& rule, Value* results, std::vector<Tensor>& out) const;
  void run(const VjpPlanRule& rule, const std::vector<Tensor>& grads, std::vector<Tensor>& out);

  struct Slots {
    uint8_t arg;
    uint32_t first, count;
  };

  const OpEntry& op_;  ///< the functional row
  const VjpPlan& plan_;
  InlineVector<Slots, 4> slots_;  ///< which edges belong to which argument
  InlineVector<std::pair<VjpUse, SavedValue>, 2> saved_;
  uint64_t wanted_ = 0;  ///< arguments that gradients go to
  bool released_ = false;
};

}  // namespace tenon::autograd
