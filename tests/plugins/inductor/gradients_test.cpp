// Gradients in the inductor backend: they lie in memory as what they are the gradients of.
#include "plugins/inductor/ops.h"

namespace tenon {
namespace {

class InductorGradients : public InductorOps {
 protected:
  /// The gradient of a layer's weights where its loss is that of `f`.
  template <class F>
  static Tensor gradient_of(F f, const Tensor& weights) {
    Tensor w = weights.clone();
    w.requires_grad_();
    f(w).backward();
    return w.grad();
  }
};

TEST_F(InductorGradients, WeightsOfALayerGetThemRowByRow) {
  Tensor x = randn({16, 40}), b = randn({24}), w = randn({24, 40});
  auto with_bias = [&](const Tensor& w) { return tanh(linear(x, w, b)).sum(); };
  auto without_bias = [&](const Tensor& w) { return tanh(linear(x, w)).sum(); };
  Tensor expected = gradient_of(with_bias, w);
  EXPECT_TRUE(expected.is_contiguous());
  EXPECT_TRUE(gradient_of(without_bias, w).is_contiguous());
  Tensor found = gradient_of(compile(with_bias, {.backend = "inductor"}), w);
  EXPECT_TRUE(found.is_contiguous());
  EXPECT_LE(distance(found, expected), 1e-4);
  EXPECT_TRUE(gradient_of(compile(without_bias, {.backend = "inductor"}), w).is_contiguous());
}

TEST_F(InductorGradients, OperandsOfAProductGetThemAsTheyLie) {
  Tensor x = randn({16, 40}), w = randn({40, 24});
  auto of_rows = [&](const Tensor& w) { return sin(mm(x, w)).sum(); };
  auto of_columns = [&](const Tensor& v) { return sin(mm(x, v.t())).sum(); };
  Tensor rows = gradient_of(of_rows, w), columns = gradient_of(of_columns, w.t().contiguous());
  EXPECT_TRUE(rows.is_contiguous());
  EXPECT_TRUE(columns.is_contiguous());
  EXPECT_LE(distance(rows, columns.t()), 1e-4);
}

}  // namespace
}  // namespace tenon
