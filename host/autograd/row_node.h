// The node of a recorded op: what its rules need, kept until the backward pass comes by.
#pragma once

#include "autograd/saved_tensor.h"
#include "autograd/vjp_plan.h"

#include <deque>

namespace tenon::autograd {

/// What one parameter of a rule keeps. Which members count depends on the kind of the use.
struct SavedUse {
  VjpUse use;
  Tag tag = Tag::none;  ///< of an argument's value
  SavedTensor tensor;
  Value plain;  ///< of numbers, dtypes and the like
  struct More {
    std::vector<SavedTensor> tensors;
    std::vector<Tensor> fakes;  ///< .meta of a list; one for a tensor
    std::vector<uint64_t> words;
    std::vector<std::string> strings;
    std::string text;
    std::unique_ptr<bool[]> bools;
  };
  std::unique_ptr<More> more;
};

class RowNode final : public Node {
 public:
  RowNode(const OpEntry& op, const VjpPlan& plan) : op_(op), plan_(plan) {}

  /// Makes the edges of the differentiable arguments; before the call, since it may write them.
  void connect(const CallArgs& call);
  /// Keeps the arguments that the rules need, before the call; `written` (an argument) as a copy.
  void save_arguments(const CallArgs& call, int written);
  /// Keeps the results that the rules need and makes the inputs, after the call.
  void save_results(const CallArgs& call);
  bool needs_written(int argument) const;

  std::string name() const override;
  std::vector<Tensor> apply(std::vector<Tensor> grads) override;
  void release() override;
  std::string origin() const override { return anomaly_trace.empty() ? "" : anomaly_trace[0]; }

 private:
  struct Call;  // the parameters of one rule, while it runs
  bool wants(const VjpPlanRule& rule) const;
  bool wants_argument(uint8_t arg) const;
  void save(const VjpUse& use, const Value& value, bool copy);
  void put_gradients(const VjpPlanRule& rule, Value* results, std::vector<Tensor>& out) const;
  void run(const VjpPlanRule& rule, const std::vector<Tensor>& grads, std::vector<Tensor>& out);

  struct Slots {
    uint8_t arg;
    uint32_t first, count;
  };

  const OpEntry& op_;  ///< the functional row
  const VjpPlan& plan_;
  std::vector<Slots> slots_;  ///< which edges belong to which argument
  std::vector<SavedUse> saved_;
  bool released_ = false;
};

}  // namespace tenon::autograd
