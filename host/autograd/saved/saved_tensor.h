// A tensor that a node keeps for its backward.
//
// A result of the node itself is kept without its history, since the node would keep itself alive
// otherwise; `unpack` gives the history back. Writes to the tensor after it was saved are found by
// the version of its storage.
#pragma once

#include "autograd/node.h"

namespace tenon::autograd {

/// The same data without history. Of a fake that is being recorded: the same value of the graph.
Tensor bare_alias(const Tensor& t);

/// Throws UserError: what the node had kept was freed by an earlier pass.
[[noreturn]] void fail_released(const Node& node);

struct PackedTensor;

class SavedTensor {
 public:
  /// In the place of `result_input`: of a result that has no gradient.
  static constexpr uint32_t no_history = ~0u;

  SavedTensor() = default;
  SavedTensor(const Tensor& t, bool is_result, uint32_t result_input = 0);

  bool defined() const { return defined_; }
  /// Throws UserError when the tensor was written since, or released by an earlier backward.
  Tensor unpack(const std::shared_ptr<Node>& owner, std::string_view what) const;
  void release();
  /// For code in the node's place; false where nothing is known of what the user's hook will give.
  bool collect(Collector& collector) const;
  /// As hooks of the user have packed it; null where there were none, or when it was released.
  const PackedTensor* packed() const { return apart_ ? apart_->packed.get() : nullptr; }

 private:
  /// Of what is kept without its history.
  struct Apart {
    std::shared_ptr<const PackedTensor> packed;  ///< what saved_tensor_hooks made of it, or null
    Edge edge;                                   ///< where its gradient goes
  };

  Tensor tensor_;
  std::unique_ptr<Apart> apart_;
  uint64_t version_ = 0;
  uint32_t result_input_ = 0;
  bool is_result_ = false, defined_ = false, released_ = false;
};

}  // namespace tenon::autograd
