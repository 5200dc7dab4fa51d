// Losses of two tensors of one shape: elementwise, then the mean, the sum, or neither.
#include "ops/nn/reduction.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include <tenon/ops/create.h>
#include <tenon/ops/nn.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

Tensor mse_loss_decomp(const Tensor& self, const Tensor& target, int64_t reduction) {
  return reduced(pow(sub(self, target), 2), reduction);
}

Tensor l1_loss_decomp(const Tensor& self, const Tensor& target, int64_t reduction) {
  return reduced(abs(sub(self, target)), reduction);
}

// z z / 2 up to the limit, from there on the straight line that goes on: with m, the smaller of z and
// the limit, m (z - m / 2). A choice between the two would take each of them for all elements.
Tensor quadratic_up_to(double limit, const Tensor& z) {
  Tensor inner = clamp_max(z, limit);
  return mul(inner, sub(z, inner, 0.5));
}

Tensor smooth_l1_loss_decomp(const Tensor& self, const Tensor& target, int64_t reduction,
                             double beta) {
  require(beta >= 0, "smooth_l1_loss: beta must not be negative, found {}", beta);
  if (beta == 0) return l1_loss_decomp(self, target, reduction);
  Tensor loss = quadratic_up_to(beta, abs(sub(self, target)));
  return reduced(beta == 1 ? loss : div(loss, beta), reduction);
}

Tensor huber_loss_decomp(const Tensor& self, const Tensor& target, int64_t reduction,
                         double delta) {
  require(delta > 0, "huber_loss: delta must be positive, found {}", delta);
  return reduced(quadratic_up_to(delta, abs(sub(self, target))), reduction);
}

Tensor weighted(const Tensor& loss, const Tensor& weight) {
  return weight.defined() ? mul(loss, weight) : loss;
}

// The logarithms are kept above -100, so that wrong and certain costs a finite loss.
Tensor binary_cross_entropy_decomp(const Tensor& self, const Tensor& target, const Tensor& weight,
                                   int64_t reduction) {
  Tensor missed = mul(sub(target, 1), clamp_min(log1p(neg(self)), -100));
  Tensor loss = sub(missed, mul(target, clamp_min(log(self), -100)));
  return reduced(weighted(loss, weight), reduction);
}

// The gradient of each element's loss, of all that are broadcast to one shape.
Tensor of_each(const Tensor& g, const Tensor& self, const Tensor& target, const Tensor& weight,
               int64_t reduction) {
  if (reduction == no_reduction) return g;
  Dims sizes = broadcast_sizes(self.sizes(), target.sizes());
  if (weight.defined()) sizes = broadcast_sizes(list_of(sizes), weight.sizes());
  SymInt count = product(list_of(sizes));
  return expand(reduction == mean_reduction ? div(g, Number(count)) : g, list_of(sizes));
}

// Of what is kept above -100 the decomposition has no gradient, and at a certainty none at all:
// there PyTorch's is large, and finite.
Tensor bce_for_self(const Tensor& g, const Tensor& self, const Tensor& target, const Tensor& weight,
                    int64_t reduction) {
  return binary_cross_entropy_backward(of_each(g, self, target, weight, reduction), self, target,
                                       weight, no_reduction);
}

Tensor bce_for_target(const Tensor& g, const Tensor& self, const Tensor& target,
                      const Tensor& weight, int64_t reduction) {
  Tensor slope = sub(log1p(neg(self)), log(self));
  return mul(weighted(slope, weight), of_each(g, self, target, weight, reduction));
}

Tensor bce_for_weight(const Tensor& g, const Tensor& self, const Tensor& target,
                      const Tensor& weight, int64_t reduction) {
  return mul(binary_cross_entropy(self, target, {}, no_reduction),
             of_each(g, self, target, weight, reduction));
}

Tensor binary_cross_entropy_with_logits_decomp(const Tensor& self, const Tensor& target,
                                               const Tensor& weight, const Tensor& pos_weight,
                                               int64_t reduction) {
  Tensor missed = mul(rsub(target, 1), self);
  Tensor hit = log_sigmoid(self);
  if (pos_weight.defined()) hit = mul(add(mul(sub(pos_weight, 1), target), 1), hit);
  return reduced(weighted(sub(missed, hit), weight), reduction);
}

Tensor kl_div_decomp(const Tensor& self, const Tensor& target, int64_t reduction, bool log_target) {
  Tensor loss = log_target ? mul(exp(target), sub(target, self))
                           : sub(xlogy(target, target), mul(target, self));
  return reduced(loss, reduction);
}

Tensor soft_margin_loss_decomp(const Tensor& self, const Tensor& target, int64_t reduction) {
  return reduced(log1p(exp(mul(neg(self), target))), reduction);
}

Tensor poisson_nll_loss_decomp(const Tensor& input, const Tensor& target, bool log_input, bool full,
                               double eps, int64_t reduction) {
  Tensor loss = log_input ? sub(exp(input), mul(target, input))
                          : sub(input, mul(target, log(add(input, eps))));
  if (full) {
    Tensor stirling = add(sub(mul(target, log(target)), target),
                          mul(log(mul(target, 2 * 3.14159265358979323846)), 0.5));
    loss = add(loss, where(le(target, 1), zeros_like(stirling), stirling));
  }
  return reduced(loss, reduction);
}

Tensor margin_ranking_loss_decomp(const Tensor& input1, const Tensor& input2, const Tensor& target,
                                  double margin, int64_t reduction) {
  return reduced(clamp_min(add(mul(neg(target), sub(input1, input2)), margin), 0), reduction);
}

Tensor hinge_embedding_loss_decomp(const Tensor& self, const Tensor& target, double margin,
                                   int64_t reduction) {
  Tensor zeros = zeros_like(self);
  // In the dtype of integers the margin is one.
  Tensor missing = sub(full_like(self, margin), self);
  Tensor apart = where(ne(target, 1), clamp_min(missing, 0), zeros);
  return reduced(add(apart, where(ne(target, -1), self, zeros)), reduction);
}

Tensor cosine_embedding_loss_decomp(const Tensor& input1, const Tensor& input2,
                                    const Tensor& target, double margin, int64_t reduction) {
  constexpr double epsilon = 1e-12;
  int64_t dim = target.dim();
  Tensor product = sum(mul(input1, input2), {dim});
  Tensor square1 = add(sum(mul(input1, input1), {dim}), epsilon);
  Tensor square2 = add(sum(mul(input2, input2), {dim}), epsilon);
  Tensor cosine = div(product, sqrt(mul(square1, square2)));
  Tensor zeros = zeros_like(cosine);
  Tensor near = where(eq(target, 1), rsub(cosine, 1), zeros);
  return reduced(add(near, where(eq(target, -1), clamp_min(sub(cosine, margin), 0), zeros)),
                 reduction);
}

Tensor distance(const Tensor& a, const Tensor& b, double p, double eps) {
  return linalg_vector_norm(add(sub(a, b), eps), p, {-1});
}

Tensor triplet_margin_loss_decomp(const Tensor& anchor, const Tensor& positive,
                                  const Tensor& negative, double margin, double p, double eps,
                                  bool swap, int64_t reduction) {
  Tensor near = distance(anchor, positive, p, eps), far = distance(anchor, negative, p, eps);
  if (swap) far = minimum(far, distance(positive, negative, p, eps));
  return reduced(clamp_min(sub(add(near, margin), far), 0), reduction);
}

}  // namespace

static constexpr OpDef nn_loss_rows[] = {
    {.schema = "mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
     .decomp = fn<mse_loss_decomp>,
     .autocast = Autocast::fp32},
    {.schema = "l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
     .decomp = fn<l1_loss_decomp>,
     .autocast = Autocast::fp32},
    {.schema =
         "smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor",
     .decomp = fn<smooth_l1_loss_decomp>,
     .autocast = Autocast::fp32},
    {.schema = "huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.) -> Tensor",
     .decomp = fn<huber_loss_decomp>,
     .autocast = Autocast::fp32},
    {.schema = "binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int "
               "reduction=1) -> Tensor",
     .decomp = fn<binary_cross_entropy_decomp>,
     .vjp = {{"self", "grad, self, target, weight, reduction", fn<bce_for_self>},
             {"target", "grad, self, target, weight, reduction", fn<bce_for_target>},
             {"weight", "grad, self, target, weight, reduction", fn<bce_for_weight>}},
     .autocast = Autocast::fp32},
    {.schema = "binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, "
               "Tensor? pos_weight=None, int reduction=1) -> Tensor",
     .decomp = fn<binary_cross_entropy_with_logits_decomp>,
     .autocast = Autocast::fp32},
    {.schema =
         "kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor",
     .decomp = fn<kl_div_decomp>,
     .autocast = Autocast::fp32},
    {.schema = "soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
     .decomp = fn<soft_margin_loss_decomp>,
     .autocast = Autocast::fp32},
    {.schema =
         "poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, "
         "int reduction) -> Tensor",
     .decomp = fn<poisson_nll_loss_decomp>,
     .autocast = Autocast::fp32},
    {.schema = "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., "
               "int reduction=1) -> Tensor",
     .decomp = fn<margin_ranking_loss_decomp>,
     .autocast = Autocast::fp32},
    {.schema = "hinge_embedding_loss(Tensor self, Tensor target, float margin=1., int reduction=1) "
               "-> Tensor",
     .tags = OpTags::compares_target,
     .decomp = fn<hinge_embedding_loss_decomp>,
     .autocast = Autocast::fp32},
    {.schema =
         "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., "
         "int reduction=1) -> Tensor",
     .tags = OpTags::compares_target,
     .decomp = fn<cosine_embedding_loss_decomp>,
     .autocast = Autocast::fp32},
    {.schema = "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float "
               "margin=1., float p=2., "
               "float eps=9.9999999999999995e-07, bool swap=False, int reduction=1) -> Tensor",
     .decomp = fn<triplet_margin_loss_decomp>,
     .autocast = Autocast::fp32},
};

extern constinit const OpFamily op_family_nn_loss{nn_loss_rows};

}  // namespace tenon::ops
