// Derivatives of normalisation: layer_norm, group_norm, batch_norm, rms_norm.
//
// Model: with x^ = (x - mean) rstd and g the gradient times the weight,
//   dx = rstd (g - mean(g) - x^ mean(g x^)), means over the normalised elements;
//   dweight = sum(grad x^) and dbias = sum(grad) over the others.
// Method: compositions in the compute type, so that they differentiate and fuse like any graph.
#include "core/sym_int.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include <tenon/ops.h>

namespace tenon::ops {

namespace {

using Triple = std::tuple<Tensor, Tensor, Tensor>;

Dtype compute_dtype(const Tensor& t) { return t.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

std::vector<int64_t> dims_between(int64_t from, int64_t to) {
  std::vector<int64_t> dims;
  for (int64_t d = from; d < to; ++d) dims.push_back(d);
  return dims;
}

Tensor sum_over(const Tensor& t, const std::vector<int64_t>& dims) {
  return dims.empty() ? t : sum(t, dims);
}

void check_mask(std::string_view op, BoolList wanted, size_t n) {
  require(wanted.size() == n, "{}: output_mask must have {} values, found {}", op, n,
          wanted.size());
}

// The gradient by the input; g is already times the weight.
Tensor input_grad(const Tensor& g, const Tensor& normal, const Tensor& rstd,
                  const std::vector<int64_t>& dims) {
  Tensor along = mul(normal, mean(mul(g, normal), dims, true));
  return mul(sub(sub(g, mean(g, dims, true)), along), rstd);
}

// ---- layer_norm

Triple layer_norm_backward(const Tensor& grad, const Tensor& input, SymIntList shape,
                           const Tensor& mean, const Tensor& rstd, const Tensor& weight,
                           const Tensor& bias, BoolList wanted) {
  check_mask("native_layer_norm_backward", wanted, 3);
  Dtype dtype = compute_dtype(input);
  int64_t rank = input.dim(), outer = rank - static_cast<int64_t>(shape.size());
  Tensor g = to(grad, dtype), scale = to(rstd, dtype);
  Tensor normal = mul(sub(to(input, dtype), to(mean, dtype)), scale);
  Triple out;
  if (wanted[0])
    std::get<0>(out) = contiguous(to(input_grad(weight.defined() ? mul(g, to(weight, dtype)) : g,
                                                normal, scale, dims_between(outer, rank)),
                                     input.dtype()));
  std::vector<int64_t> others = dims_between(0, outer);
  if (wanted[1] && weight.defined())
    std::get<1>(out) = to(sum_over(mul(g, normal), others), weight.dtype());
  if (wanted[2] && bias.defined()) std::get<2>(out) = clone(to(sum_over(g, others), bias.dtype()));
  return out;
}

// ---- group_norm

Triple group_norm_backward(const Tensor& grad, const Tensor& input, const Tensor& mean,
                           const Tensor& rstd, const Tensor& weight, SymInt batch, SymInt channels,
                           SymInt inner, int64_t groups, BoolList wanted) {
  check_mask("native_group_norm_backward", wanted, 3);
  Dtype dtype = compute_dtype(input);
  Dims per_group{batch, SymInt(groups), SymInt(1), SymInt(1)};
  Dims sizes{batch, SymInt(groups), channels / groups, inner};
  Tensor g = reshape(to(grad, dtype), list_of(sizes)),
         scale = reshape(to(rstd, dtype), list_of(per_group));
  Tensor centered =
      sub(reshape(to(input, dtype), list_of(sizes)), reshape(to(mean, dtype), list_of(per_group)));
  Tensor normal = mul(centered, scale);
  Triple out;
  if (wanted[0]) {
    Tensor weighted = g;
    if (weight.defined())
      weighted = mul(
          g, reshape(to(weight, dtype), {SymInt(1), SymInt(groups), channels / groups, SymInt(1)}));
    Tensor dx = reshape(input_grad(weighted, normal, scale, {2, 3}), input.sizes());
    std::get<0>(out) = to(dx, input.dtype());
  }
  auto per_channel = [&](const Tensor& t) { return reshape(sum(t, {0, 3}), {channels}); };
  Dtype kept = weight.defined() ? weight.dtype() : input.dtype();
  if (wanted[1]) std::get<1>(out) = to(per_channel(mul(g, normal)), kept);
  if (wanted[2]) std::get<2>(out) = to(per_channel(g), kept);
  return out;
}

// ---- batch_norm

Tensor along_channels(const Tensor& t, int64_t rank, Dtype dtype) {
  require(is_floating(t.dtype()),
          "native_batch_norm_backward: weight and statistics need a floating dtype, found {}; cast "
          "them to the dtype of input",
          t.dtype());
  Dims sizes(static_cast<size_t>(rank), SymInt(1));
  sizes[1] = t.size(0);
  return reshape(to(t, dtype), list_of(sizes));
}

Triple batch_norm_backward(const Tensor& grad, const Tensor& input, const Tensor& weight,
                           const Tensor& running_mean, const Tensor& running_var,
                           const Tensor& save_mean, const Tensor& save_rstd, bool train, double eps,
                           BoolList wanted) {
  check_mask("native_batch_norm_backward", wanted, 3);
  Dtype dtype = compute_dtype(input);
  int64_t rank = input.dim();
  require(rank >= 2, "native_batch_norm_backward: input must have 2 dimensions or more, found {}",
          rank);
  const Tensor &center = train ? save_mean : running_mean,
               &spread = train ? save_rstd : running_var;
  require(center.defined() && spread.defined(),
          "native_batch_norm_backward: {} must be given when train is {}",
          train ? "save_mean and save_invstd" : "running_mean and running_var", train);
  Tensor mean = along_channels(center, rank, dtype), rstd = along_channels(spread, rank, dtype);
  if (!train) rstd = rsqrt(add(rstd, eps));
  Tensor g = to(grad, dtype), normal = mul(sub(to(input, dtype), mean), rstd);
  std::vector<int64_t> dims = dims_between(2, rank);
  dims.insert(dims.begin(), 0);
  Triple out;
  if (wanted[0]) {
    Tensor scale = weight.defined() ? along_channels(weight, rank, dtype) : Tensor();
    Tensor dx = train ? input_grad(g, normal, rstd, dims) : mul(g, rstd);
    if (scale.defined()) dx = mul(dx, scale);
    std::get<0>(out) = to(dx, input.dtype());
  }
  Dtype kept = weight.defined() ? weight.dtype() : input.dtype();
  if (wanted[1]) std::get<1>(out) = to(sum(mul(g, normal), dims), kept);
  if (wanted[2]) std::get<2>(out) = to(sum(g, dims), kept);
  return out;
}

// ---- rms_norm

std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& grad, const Tensor& input, IntList shape,
                                             const Tensor& rstd, const Tensor& weight,
                                             BoolList wanted) {
  check_mask("_fused_rms_norm_backward", wanted, 2);
  Dtype dtype = compute_dtype(input);
  int64_t rank = input.dim(), outer = rank - static_cast<int64_t>(shape.size());
  Tensor g = to(grad, dtype), scale = to(rstd, dtype), normal = mul(to(input, dtype), scale);
  std::tuple<Tensor, Tensor> out;
  if (wanted[0]) {
    Tensor weighted = weight.defined() ? mul(g, to(weight, dtype)) : g;
    Tensor along = mul(normal, mean(mul(weighted, normal), dims_between(outer, rank), true));
    std::get<0>(out) = to(mul(sub(weighted, along), scale), input.dtype());
  }
  if (wanted[1] && weight.defined())
    std::get<1>(out) = to(sum_over(mul(g, normal), dims_between(0, outer)), weight.dtype());
  return out;
}

}  // namespace

static constexpr OpDef rows[] = {
    {.schema = "native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] "
               "normalized_shape, Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] "
               "output_mask) -> (Tensor, Tensor, Tensor)",
     .decomp = fn<layer_norm_backward>},
    {.schema = "native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor "
               "rstd, Tensor? weight, SymInt N, SymInt C, SymInt HxW, int group, bool[3] "
               "output_mask) -> (Tensor, Tensor, Tensor)",
     .decomp = fn<group_norm_backward>},
    {.schema = "native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? "
               "running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool "
               "train, float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
     .decomp = fn<batch_norm_backward>},
    {.schema = "_fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, "
               "Tensor rstd, Tensor? weight, bool[2] output_mask) -> (Tensor, Tensor)",
     .decomp = fn<rms_norm_backward>},
};

extern constinit const OpFamily op_family_nn_norm_backward{rows};

}  // namespace tenon::ops
