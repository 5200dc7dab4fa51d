// Derivatives of normalisation: layer_norm, group_norm, batch_norm, rms_norm.
//
// Model: with x^ = (x - mean) rstd and g the gradient times the weight,
//   dx = rstd (g - mean(g) - x^ mean(g x^)), means over the normalised elements;
//   dweight = sum(grad x^) and dbias = sum(grad) over the others.
// Method: compositions in the compute type, so that they differentiate and fuse like any graph.
#include "core/kernels/rows/normalize.h"
#include "core/sym/sym_int.h"
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

#include <cmath>

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

// In one pass over the data for the sums and one for the gradient, where all lies row by row in the
// compute type; what is taken apart otherwise.
template <class C>
Triple batch_norm_gradients(const Tensor& grad, const Tensor& input, const Tensor& weight,
                            const Tensor& center, const Tensor& spread, bool train, double eps,
                            BoolList wanted) {
  int64_t batch = sizes_of(input)[0], channels = sizes_of(input)[1];
  int64_t inner = numel_of(input) / (batch * channels);
  double n = static_cast<double>(batch * inner);
  std::vector<double> of_g(static_cast<size_t>(channels)), of_gx(of_g.size());
  const C *g = data_of<C>(grad), *x = data_of<C>(input), *mean = data_of<C>(center);
  kernels::channel_gradient_sums(g, x, mean, of_g.data(), of_gx.data(), batch, channels, inner);
  std::vector<C> a(of_g.size()), b(of_g.size()), d(of_g.size()), by_weight(of_g.size());
  for (size_t c = 0; c < of_g.size(); ++c) {
    double s = data_of<C>(spread)[c], rstd = train ? s : 1 / std::sqrt(s + eps);
    double scale = rstd * (weight.defined() ? data_of<C>(weight)[c] : C(1));
    a[c] = static_cast<C>(scale);
    b[c] = static_cast<C>(train ? -scale * rstd * rstd * of_gx[c] / n : 0);
    d[c] = static_cast<C>(train ? -scale * of_g[c] / n : 0);
    by_weight[c] = static_cast<C>(of_gx[c] * rstd);
  }
  Triple out;
  if (wanted[0]) {
    std::get<0>(out) = make_tensor(contiguous_meta(input.sizes(), input.dtype()));
    kernels::combine_channels(g, x, data_of<C>(std::get<0>(out)), batch, channels, inner, mean,
                              a.data(), b.data(), d.data());
  }
  auto per_channel = [&](const auto& values) {
    Tensor t = make_tensor(IntList{channels}, input.dtype());
    std::copy(values.begin(), values.end(), data_of<C>(t));
    return t;
  };
  if (wanted[1]) std::get<1>(out) = per_channel(by_weight);
  if (wanted[2]) std::get<2>(out) = per_channel(of_g);
  return out;
}

Triple batch_norm_backward_kernel(const Tensor& grad, const Tensor& input, const Tensor& weight,
                                  const Tensor& running_mean, const Tensor& running_var,
                                  const Tensor& save_mean, const Tensor& save_rstd, bool train,
                                  double eps, BoolList wanted) {
  const Tensor &center = train ? save_mean : running_mean,
               &spread = train ? save_rstd : running_var;
  auto is_plain = [&](const Tensor& t) {
    return t.defined() && t.dtype() == input.dtype() && t.is_contiguous() && numel_of(t) > 0;
  };
  bool fits = input.dim() >= 2 && wanted.size() == 3 &&
              (input.dtype() == Dtype::f32 || input.dtype() == Dtype::f64) && is_plain(input) &&
              is_plain(grad) && numel_of(grad) == numel_of(input) && is_plain(center) &&
              is_plain(spread) && (!weight.defined() || is_plain(weight));
  for (const Tensor* t : {&center, &spread, &weight})
    fits = fits && (!t->defined() || numel_of(*t) == sizes_of(input)[1]);
  if (!fits)
    return batch_norm_backward(grad, input, weight, running_mean, running_var, save_mean, save_rstd,
                               train, eps, wanted);
  return input.dtype() == Dtype::f32
             ? batch_norm_gradients<float>(grad, input, weight, center, spread, train, eps, wanted)
             : batch_norm_gradients<double>(grad, input, weight, center, spread, train, eps,
                                            wanted);
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

static constexpr OpDef nn_norm_backward_rows[] = {
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
     .eager = fn<batch_norm_backward_kernel>,
     .decomp = fn<batch_norm_backward>},
    {.schema = "_fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, "
               "Tensor rstd, Tensor? weight, bool[2] output_mask) -> (Tensor, Tensor)",
     .decomp = fn<rms_norm_backward>},
};

extern constinit const OpFamily op_family_nn_norm_backward{nn_norm_backward_rows};

}  // namespace tenon::ops
