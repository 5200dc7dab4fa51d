// The end of the tape at a leaf: adds to its gradient.
#pragma once

#include "autograd/node.h"

namespace tenon::autograd {

class AccumulateGrad final : public Node {
 public:
  explicit AccumulateGrad(const Tensor& leaf) : Node(first_sequence), leaf_(leaf) {
    add_input(leaf);
  }
  std::string name() const override { return "AccumulateGrad"; }
  std::vector<Tensor> apply(std::vector<Tensor> grads) override;
  const Tensor& leaf() const { return leaf_; }
  /// Another handle of the same data is the leaf from here on.
  void move_to(const Tensor& leaf) { leaf_ = leaf; }

 private:
  Tensor leaf_;
};

/// a + b for gradients; into `a` where nobody else sees it and no tape is wanted.
Tensor add_gradients(Tensor a, const Tensor& b);

}  // namespace tenon::autograd
