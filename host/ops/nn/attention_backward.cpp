// The derivative of attention, from the saved logarithms of the softmax sums.
//
// Model: with shares P = exp(q k^T factor - logsumexp), g the gradient and dP = g v^T,
//   dv = P^T g, dS = P (dP - sum(g out)) factor, dq = dS k, dk = dS^T q.
// Method: a composition in the compute type, so that it differentiates and fuses like any graph. What is
// differentiated once more computes the shares itself: results that are given are no functions any more.
#include "core/dispatch.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include <tenon/ops.h>

#include <cmath>
#include <limits>

namespace tenon::ops {

namespace {

// Heads behind the sequence in memory, as the fused op of ATen leaves them.
Tensor heads_inside(const Tensor& t, Dtype dtype) {
  return transpose(contiguous(transpose(to(t, dtype), 1, 2)), 1, 2);
}

std::tuple<Tensor, Tensor, Tensor> attention_backward(const Tensor& grad, const Tensor& q,
                                                      const Tensor& k, const Tensor& v,
                                                      const Tensor& out, const Tensor& logsumexp,
                                                      double dropout, bool is_causal,
                                                      const Tensor& mask,
                                                      std::optional<double> scale) {
  require(dropout == 0, ErrorCode::unsupported,
          "_scaled_dot_product_flash_attention_for_cpu_backward: dropout {} is not supported",
          dropout);
  Dtype dtype = q.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  double factor = scale.value_or(1 / std::sqrt(static_cast<double>(q.size(-1).guard_int())));
  Tensor g = to(grad, dtype), query = to(q, dtype), key = to(k, dtype), value = to(v, dtype);
  Tensor scores = mul(matmul(query, transpose(key, -1, -2)), factor);
  if (mask.defined()) scores = add(scores, to(mask, dtype));
  if (is_causal) {
    Tensor later = triu(ones_like(scores, Dtype::bool_), 1);
    scores = masked_fill(scores, later, -std::numeric_limits<double>::infinity());
  }
  Tensor grad_shares = matmul(g, transpose(value, -1, -2));
  // Of what is differentiated once more, the results that are given are no functions any more.
  bool is_differentiated =
      thread_modes.grad_enabled && (q.requires_grad() || k.requires_grad() || v.requires_grad());
  Tensor shares = is_differentiated ? _safe_softmax(scores, -1)
                                    : exp(sub(scores, unsqueeze(to(logsumexp, dtype), -1)));
  Tensor parts = is_differentiated ? mul(grad_shares, shares) : mul(g, to(out, dtype));
  Tensor level = sum(parts, {-1}, true);
  Tensor grad_scores = mul(mul(shares, sub(grad_shares, level)), factor);
  return {heads_inside(matmul(grad_scores, key), q.dtype()),
          heads_inside(matmul(transpose(grad_scores, -1, -2), query), k.dtype()),
          heads_inside(matmul(transpose(shares, -1, -2), g), v.dtype())};
}

}  // namespace

static constexpr OpDef nn_attention_backward_rows[] = {
    {.schema = "_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor "
               "query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, float dropout_p, "
               "bool is_causal, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor "
               "grad_query, Tensor grad_key, Tensor grad_value)",
     .decomp = fn<attention_backward>},
};

extern constinit const OpFamily op_family_nn_attention_backward{nn_attention_backward_rows};

}  // namespace tenon::ops
