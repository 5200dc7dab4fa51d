// Derivatives of the normalisations: the backward ops, and what gradients of the returned mean and
// reciprocal deviation add, which a second derivative needs.
#include "ops/nn/norm_vjp.h"

#include "core/tensor/tensor_impl.h"
#include "ops/shapes.h"
#include "ops/vjp_rules.h"

#include <tenon/ops/nn.h>

namespace tenon::ops {

std::tuple<Tensor, Tensor, Tensor> layer_norm_vjp(const Tensor& g, const Tensor& g_mean,
                                                  const Tensor& g_rstd, const Tensor& x,
                                                  SymIntList shape, const Tensor& mean,
                                                  const Tensor& rstd, const Tensor& weight,
                                                  const Tensor& bias, BoolList needs) {
  Tensor gx, gw, gb;
  if (g.defined())
    std::tie(gx, gw, gb) = native_layer_norm_backward(g, x, shape, mean, rstd, weight, bias, needs);
  SymInt count = 1;
  for (SymInt s : shape) count = count * s;
  Tensor part = needs[0] ? statistics_vjp(g_mean, g_rstd, x, mean, rstd, count) : Tensor();
  if (part.defined()) gx = gx.defined() ? gx.add(part) : part.expand(x.sizes());
  return {gx, gw, gb};
}

// Mean and reciprocal deviation have gradients of their own.
std::tuple<Tensor, Tensor, Tensor> group_norm_vjp(const Tensor& g, const Tensor& g_mean,
                                                  const Tensor& g_rstd, const Tensor& x,
                                                  const Tensor& mean, const Tensor& rstd,
                                                  const Tensor& weight, SymInt n, SymInt c,
                                                  SymInt hw, int64_t group, BoolList needs) {
  Tensor gx, gw, gb;
  if (g.defined())
    std::tie(gx, gw, gb) =
        native_group_norm_backward(g, x, mean, rstd, weight, n, c, hw, group, needs);
  if (!needs[0]) return {gx, gw, gb};
  SymInt count = c / group * hw;
  auto column = [](const Tensor& t) { return t.defined() ? t.unsqueeze(-1) : t; };
  Tensor part = statistics_vjp(column(g_mean), column(g_rstd), x.reshape({n, group, count}),
                               mean.unsqueeze(-1), rstd.unsqueeze(-1), count);
  if (!part.defined()) return {gx, gw, gb};
  part = part.expand({n, group, count}).reshape(x.sizes());
  return {gx.defined() ? gx.add(part) : part, gw, gb};
}

SymInt elements_of_channel(const Tensor& x) {
  SymIntList sizes = x.sizes();
  return sizes[0] * product(SymIntList(sizes.data() + 2, sizes.size() - 2));
}

std::tuple<Tensor, Tensor, Tensor> batch_norm_vjp(const Tensor& g, const Tensor& g_mean,
                                                  const Tensor& g_invstd, const Tensor& x,
                                                  const Tensor& weight, const Tensor& running_mean,
                                                  const Tensor& running_var, const Tensor& mean,
                                                  const Tensor& invstd, bool training, double eps,
                                                  BoolList needs) {
  Tensor gx, gw, gb;
  if (g.defined())
    std::tie(gx, gw, gb) = native_batch_norm_backward(g, x, weight, running_mean, running_var, mean,
                                                      invstd, training, eps, needs);
  if (!training || !needs[0]) return {gx, gw, gb};
  Dims channels(x.sizes().size(), SymInt(1));
  channels[1] = x.size(1);
  auto wide = [&](const Tensor& t) { return t.defined() ? t.reshape(list_of(channels)) : t; };
  Tensor part = statistics_vjp(wide(g_mean), wide(g_invstd), x, wide(mean), wide(invstd),
                               elements_of_channel(x));
  if (part.defined()) gx = gx.defined() ? gx.add(part) : part.expand(x.sizes());
  return {gx, gw, gb};
}

std::tuple<Tensor, Tensor, Tensor> batch_norm_without_statistics_vjp(
    const Tensor& g, const Tensor& g_mean, const Tensor& g_invstd, const Tensor& x,
    const Tensor& weight, const Tensor& mean, const Tensor& invstd, bool training, double eps,
    BoolList needs) {
  return batch_norm_vjp(g, g_mean, g_invstd, x, weight, {}, {}, mean, invstd, training, eps, needs);
}

std::tuple<Tensor, Tensor, Tensor> batch_norm_inference_vjp(
    const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& running_mean,
    const Tensor& running_var, const Tensor& mean, const Tensor& invstd, double eps,
    BoolList needs) {
  return batch_norm_vjp(g, {}, {}, x, weight, running_mean, running_var, mean, invstd, false, eps,
                        needs);
}

}  // namespace tenon::ops
