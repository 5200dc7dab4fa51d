// Attention as batched products and the softmax between them.
//
// scores = scale * query x key^T in f32, masked; weights = softmax(scores) in the operands' dtype,
// rows of no key giving 0; result = weights x value. The scores are a tensor in memory, so this is
// for lengths up to some thousands; operands whose batches and heads do not lie in one step are
// copied, and the result is put in its place by a loop that fusion joins with what follows.
#pragma once

#include "step_loops.h"

#include <functional>

namespace inductor_cuda {

class AttentionSteps {
 public:
  using AddProduct = std::function<void(loopir::Product)>;
  AttentionSteps(StepLoops& loops, AddProduct add_product)
      : l_(loops), x_(loops.x), add_product_(std::move(add_product)) {}

  void add(const loopir::Attention& a);
  /// By the log-sums; weights and gradients of scores in the operands' dtype.
  void add(const loopir::AttentionGradient& g);

 private:
  loopir::View scores_of(const loopir::Attention& a);
  void multiply(const loopir::View& left, const loopir::View& right, const loopir::View& result,
                double alpha, const std::string& name);
  void store_product(const loopir::View& left, const loopir::View& right, const loopir::View& to,
                     const std::string& name);
  /// [batch, heads, rows, columns] with the first two as one.
  loopir::View batched(const loopir::View& v, const std::string& name);
  Id multiplied(const loopir::Attention& a, Id score);
  /// The score of indices [batch, head, query, key], masked.
  Id masked(const loopir::Attention& a, Id score, const Ids& i);
  loopir::View softmax(const loopir::Attention& a, const loopir::View& scores, int32_t dtype);

  StepLoops& l_;
  loopir::Expressions& x_;
  AddProduct add_product_;
};

}  // namespace inductor_cuda
