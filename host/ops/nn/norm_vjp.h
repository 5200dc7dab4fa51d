// Derivatives of the normalisations, with those of the statistics that they return.
#pragma once

#include <tenon/tensor.h>

#include <tuple>

namespace tenon::ops {

std::tuple<Tensor, Tensor, Tensor> layer_norm_vjp(const Tensor& g, const Tensor& g_mean,
                                                  const Tensor& g_rstd, const Tensor& x,
                                                  SymIntList shape, const Tensor& mean,
                                                  const Tensor& rstd, const Tensor& weight,
                                                  const Tensor& bias, BoolList needs);
std::tuple<Tensor, Tensor, Tensor> group_norm_vjp(const Tensor& g, const Tensor& g_mean,
                                                  const Tensor& g_rstd, const Tensor& x,
                                                  const Tensor& mean, const Tensor& rstd,
                                                  const Tensor& weight, SymInt n, SymInt c,
                                                  SymInt hw, int64_t group, BoolList needs);
std::tuple<Tensor, Tensor, Tensor> batch_norm_vjp(const Tensor& g, const Tensor& g_mean,
                                                  const Tensor& g_invstd, const Tensor& x,
                                                  const Tensor& weight, const Tensor& running_mean,
                                                  const Tensor& running_var, const Tensor& mean,
                                                  const Tensor& invstd, bool training, double eps,
                                                  BoolList needs);
/// The same where there are no running statistics, and where only those count.
std::tuple<Tensor, Tensor, Tensor> batch_norm_without_statistics_vjp(
    const Tensor& g, const Tensor& g_mean, const Tensor& g_invstd, const Tensor& x,
    const Tensor& weight, const Tensor& mean, const Tensor& invstd, bool training, double eps,
    BoolList needs);
std::tuple<Tensor, Tensor, Tensor> batch_norm_inference_vjp(
    const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& running_mean,
    const Tensor& running_var, const Tensor& mean, const Tensor& invstd, double eps,
    BoolList needs);

/// How many elements a channel of `x` [N, C, ...] has: 0 where there is no batch, also of no channels.
SymInt elements_of_channel(const Tensor& x);

}  // namespace tenon::ops
