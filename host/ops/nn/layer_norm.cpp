// Normalisation of each image by itself: layer_norm, group_norm, rms_norm.
#include "core/kernels/rows/normalize.h"
#include "core/threads/thread_pool.h"
#include "ops/kernel_loops.h"
#include "ops/nn/norm_vjp.h"
#include "ops/op.h"
#include "ops/shape_check.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/nn.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

#include <cmath>
#include <limits>

namespace tenon::ops {

namespace {

using kernels::Compute;

// ---- what they share

// The type of the arithmetic where 16-bit inputs meet f32 weights.
Dtype joint_dtype(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  for (const Tensor* t : {&weight, &bias})
    if (t->defined() && t->dtype() != input.dtype()) return Dtype::f32;
  return input.dtype();
}

Tensor converted_if_defined(const Tensor& t, Dtype dtype) {
  return t.defined() ? converted(t, dtype) : Tensor();
}

template <class T>
T* data_if_defined(const Tensor& t) {
  return t.defined() ? data_of<T>(t) : nullptr;
}

// A row-major tensor in which results can be computed: `out` itself where it is one.
Tensor scratch_like(const Tensor& out, Dtype dtype) {
  if (out.dtype() == dtype && out.is_contiguous()) return out;
  return make_tensor(contiguous_meta(out.sizes(), dtype));
}

void store_result(const Tensor& out, const Tensor& result) {
  if (!result.is_same(out)) copy_elements(out, result);
}

// Statistics are computed in the compute type and handed out in that of `out`.
struct Statistics {
  Tensor mean, rstd;
  Statistics(int64_t n, Dtype dtype)
      : mean(make_tensor(IntList{n}, dtype)), rstd(make_tensor(IntList{n}, dtype)) {}
  void store(const Tensor& out_mean, const Tensor& out_rstd) const {
    for (auto [from, to] : {std::pair(&mean, &out_mean), std::pair(&rstd, &out_rstd)})
      copy_elements(make_view(*to, {SymInt(numel_of(*from))}, {SymInt(1)}, to->storage_offset()),
                    *from);
  }
};

Dtype compute_dtype(Dtype dtype) { return dtype == Dtype::f64 ? dtype : Dtype::f32; }

// ---- layer_norm

size_t n_outer_dims(std::string_view op, const Tensor& input, SymIntList shape) {
  size_t rank = input.sizes().size();
  bool fits = !shape.empty() && shape.size() <= rank;
  for (size_t i = 0; fits && i < shape.size(); ++i)
    fits = sizes_match(input.sizes()[rank - shape.size() + i], shape[i]);
  require(fits, "{}: input of shape {} must end with normalized_shape {}", op, input.sizes(),
          shape);
  return rank - shape.size();
}

void check_affine(std::string_view op, std::string_view name, const Tensor& t, SymIntList shape) {
  if (t.defined()) require_shape(op, name, t, shape);
}

Dims statistics_sizes(const Tensor& input, size_t n_outer) {
  Dims sizes = dims_of(input.sizes());
  for (size_t i = n_outer; i < sizes.size(); ++i) sizes[i] = 1;
  return sizes;
}

TensorMeta layer_norm_meta(const Tensor& input, SymIntList shape, const Tensor& weight,
                           const Tensor& bias, double, bool) {
  require_floating("layer_norm", input.dtype());
  n_outer_dims("layer_norm", input, shape);
  check_affine("layer_norm", "weight", weight, shape);
  check_affine("layer_norm", "bias", bias, shape);
  return contiguous_meta(input.sizes(), input.dtype(), input.device());
}

std::array<TensorMeta, 3> native_layer_norm_meta(const Tensor& input, SymIntList shape,
                                                 const Tensor& weight, const Tensor& bias,
                                                 double eps) {
  TensorMeta out = layer_norm_meta(input, shape, weight, bias, eps, false);
  Dims sizes = statistics_sizes(input, n_outer_dims("layer_norm", input, shape));
  TensorMeta statistics =
      contiguous_meta(list_of(sizes), joint_dtype(input, weight, bias), input.device());
  return {std::move(out), statistics, statistics};
}

struct RowShape {
  int64_t rows = 1, n = 1;
};

RowShape row_shape(const Tensor& input, size_t n_normalized) {
  RowShape shape;
  IntList sizes = sizes_of(input);
  for (size_t d = 0; d < sizes.size(); ++d)
    (d + n_normalized < sizes.size() ? shape.rows : shape.n) *= sizes[d];
  return shape;
}

// `statistics` may be null.
void run_layer_norm(const Tensor& out, const Statistics* statistics, const Tensor& input,
                    size_t n_normalized, const Tensor& weight, const Tensor& bias, double eps) {
  Dtype dtype = joint_dtype(input, weight, bias);
  Tensor x = converted(input, dtype), y = scratch_like(out, dtype);
  Tensor w = converted_if_defined(weight, dtype), b = converted_if_defined(bias, dtype);
  RowShape shape = row_shape(input, n_normalized);
  dispatch_floating(dtype, "layer_norm", [&]<class T>() {
    using C = Compute<T>;
    kernels::layer_norm<T>(data_of<T>(x), data_of<T>(y),
                           statistics ? data_of<C>(statistics->mean) : nullptr,
                           statistics ? data_of<C>(statistics->rstd) : nullptr, shape.rows, shape.n,
                           static_cast<C>(eps), data_if_defined<T>(w), data_if_defined<T>(b));
  });
  store_result(out, y);
}

void layer_norm_kernel(Tensor& out, const Tensor& input, SymIntList shape, const Tensor& weight,
                       const Tensor& bias, double eps, bool) {
  run_layer_norm(out, nullptr, input, shape.size(), weight, bias, eps);
}

void native_layer_norm_kernel(Tensor& out, Tensor& mean, Tensor& rstd, const Tensor& input,
                              SymIntList shape, const Tensor& weight, const Tensor& bias,
                              double eps) {
  Statistics statistics(row_shape(input, shape.size()).rows, compute_dtype(input.dtype()));
  run_layer_norm(out, &statistics, input, shape.size(), weight, bias, eps);
  statistics.store(mean, rstd);
}

std::vector<int64_t> last_dims(const Tensor& input, size_t n) {
  std::vector<int64_t> dims;
  for (int64_t d = input.dim() - static_cast<int64_t>(n); d < input.dim(); ++d) dims.push_back(d);
  return dims;
}

using Triple = std::tuple<Tensor, Tensor, Tensor>;

Triple native_layer_norm_decomp(const Tensor& input, SymIntList shape, const Tensor& weight,
                                const Tensor& bias, double eps) {
  native_layer_norm_meta(input, shape, weight, bias, eps);
  Tensor x = to(input, compute_dtype(input.dtype()));
  auto [variance, mean] = var_mean(x, last_dims(input, shape.size()), Number(0), true);
  Tensor rstd = rsqrt(add(variance, eps));
  Tensor y = mul(sub(x, mean), rstd);
  if (weight.defined()) y = mul(y, weight);
  if (bias.defined()) y = add(y, bias);
  Dtype kept = joint_dtype(input, weight, bias);
  return {to(y, input.dtype()), to(mean, kept), to(rstd, kept)};
}

// ---- group_norm

void check_groups(const Tensor& input, SymInt channels, int64_t groups, const Tensor& weight,
                  const Tensor& bias) {
  require_floating("group_norm", input.dtype());
  require(input.dim() >= 2,
          "group_norm: input needs a batch and a channel dimension, found shape {}", input.sizes());
  require(groups > 0 && sizes_match(channels % groups, 0),
          "group_norm: {} channels do not divide into {} groups", channels, groups);
  check_affine("group_norm", "weight", weight, {channels});
  check_affine("group_norm", "bias", bias, {channels});
}

std::array<TensorMeta, 3> native_group_norm_meta(const Tensor& input, const Tensor& weight,
                                                 const Tensor& bias, SymInt batch, SymInt channels,
                                                 SymInt inner, int64_t groups, double) {
  check_groups(input, channels, groups, weight, bias);
  require(sizes_match(batch * channels * inner, input.numel()),
          "native_group_norm: N {}, C {} and HxW {} do not make the elements of shape {}", batch,
          channels, inner, input.sizes());
  TensorMeta out{input.dtype(), input.device(), dims_of(input.sizes()),
                 strides_for(input.sizes(), suggest_memory_format(input))};
  TensorMeta statistics =
      contiguous_meta({batch, SymInt(groups)}, joint_dtype(input, weight, bias), input.device());
  return {std::move(out), statistics, statistics};
}

void native_group_norm_kernel(Tensor& out, Tensor& mean, Tensor& rstd, const Tensor& input,
                              const Tensor& weight, const Tensor& bias, SymInt batch,
                              SymInt channels, SymInt inner, int64_t groups, double eps) {
  Dtype dtype = joint_dtype(input, weight, bias);
  Tensor x = converted(input, dtype), y = scratch_like(out, dtype);
  Tensor w = converted_if_defined(weight, dtype), b = converted_if_defined(bias, dtype);
  Statistics statistics(batch * groups, compute_dtype(dtype));
  dispatch_floating(dtype, "group_norm", [&]<class T>() {
    using C = Compute<T>;
    kernels::group_norm<T>(data_of<T>(x), data_of<T>(y), data_of<C>(statistics.mean),
                           data_of<C>(statistics.rstd), batch, channels, groups, inner,
                           static_cast<C>(eps), data_if_defined<T>(w), data_if_defined<T>(b));
  });
  store_result(out, y);
  statistics.store(mean, rstd);
}

Triple native_group_norm_decomp(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                SymInt batch, SymInt channels, SymInt inner, int64_t groups,
                                double eps) {
  check_groups(input, channels, groups, weight, bias);
  Tensor x = reshape(to(input, compute_dtype(input.dtype())),
                     {batch, SymInt(groups), channels / groups, inner});
  auto [variance, mean] = var_mean(x, {2, 3}, Number(0), true);
  Tensor rstd = rsqrt(add(variance, eps));
  Tensor y = reshape(mul(sub(x, mean), rstd), input.sizes());
  Dims affine(input.sizes().size(), SymInt(1));
  affine[1] = channels;
  if (weight.defined()) y = mul(y, reshape(weight, list_of(affine)));
  if (bias.defined()) y = add(y, reshape(bias, list_of(affine)));
  Dtype kept = joint_dtype(input, weight, bias);
  Dims kept_sizes{batch, SymInt(groups)};
  return {to(y, input.dtype()), to(reshape(mean, list_of(kept_sizes)), kept),
          to(reshape(rstd, list_of(kept_sizes)), kept)};
}

Tensor group_norm_decomp(const Tensor& input, int64_t groups, const Tensor& weight,
                         const Tensor& bias, double eps, bool) {
  require(input.dim() >= 2,
          "group_norm: input needs a batch and a channel dimension, found shape {}", input.sizes());
  SymInt inner = product(input.sizes().slice(2));
  return std::get<0>(
      native_group_norm(input, weight, bias, input.size(0), input.size(1), inner, groups, eps));
}

// ---- rms_norm

double rms_eps(Dtype dtype, std::optional<double> eps) {
  if (eps) return *eps;
  if (dtype == Dtype::f64) return std::numeric_limits<double>::epsilon();
  return std::numeric_limits<float>::epsilon();
}

using Pair = std::tuple<Tensor, Tensor>;

void check_rms_norm(const Tensor& input, SymIntList shape, const Tensor& weight) {
  require_floating("rms_norm", input.dtype());
  n_outer_dims("rms_norm", input, shape);
  check_affine("rms_norm", "weight", weight, shape);
}

Pair rms_norm_parts(const Tensor& input, SymIntList shape, const Tensor& weight,
                    std::optional<double> eps) {
  check_rms_norm(input, shape, weight);
  Tensor x = to(input, compute_dtype(input.dtype()));
  Tensor rstd = rsqrt(
      add(mean(pow(x, 2), last_dims(input, shape.size()), true), rms_eps(input.dtype(), eps)));
  Tensor y = mul(x, rstd);
  if (weight.defined()) y = mul(y, weight);
  return {to(y, input.dtype()), rstd};
}

// Strides as the parts give them, which follow those of the input.
TensorMeta rms_norm_meta(const Tensor& input, SymIntList shape, const Tensor& weight,
                         std::optional<double> eps) {
  check_rms_norm(input, shape, weight);
  if (input.is_contiguous()) return contiguous_meta(input.sizes(), input.dtype(), input.device());
  FakeScope fakes;
  auto fake_of = [](const Tensor& t) { return t.defined() ? make_fake(meta_of(t)) : Tensor(); };
  return meta_of(std::get<0>(rms_norm_parts(fake_of(input), shape, fake_of(weight), eps)));
}

template <class T>
void rms_norm_rows(const T* x, T* y, Compute<T>* rstd, RowShape shape, double eps,
                   const Compute<T>* weight) {
  using C = Compute<T>;
  const auto& products = kernels::gemm_level<C>();
  const auto& rows = kernels::row_level<C>();
  parallel_for(
      0, shape.rows, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, shape.n)),
      [&](int64_t lo, int64_t hi) {
        kernels::RowScratch<T> scratch(shape.n);
        for (int64_t r = lo; r < hi; ++r) {
          const C* in = scratch.read(x + r * shape.n);
          C square = 0;
          products.dots(1, 1, shape.n, in, shape.n, in, shape.n, C(1), C(0), &square, 1, 1);
          C scale =
              static_cast<C>(1 / std::sqrt(square / static_cast<C>(shape.n) + static_cast<C>(eps)));
          rows.normalize(in, scratch.target(y + r * shape.n), shape.n, C(0), scale, weight,
                         nullptr);
          scratch.finish(y + r * shape.n);
          if (rstd) rstd[r] = scale;
        }
      });
}

void run_rms_norm(const Tensor& out, const Tensor* rstd, const Tensor& input, size_t n_normalized,
                  const Tensor& weight, std::optional<double> eps) {
  Tensor x = contiguous_of(input), w = converted_if_defined(weight, compute_dtype(input.dtype()));
  Tensor rows = out.is_contiguous() ? out : make_tensor(contiguous_meta(out.sizes(), out.dtype()));
  RowShape shape = row_shape(input, n_normalized);
  dispatch_floating(input.dtype(), "rms_norm", [&]<class T>() {
    using C = Compute<T>;
    rms_norm_rows<T>(data_of<T>(x), data_of<T>(rows), rstd ? data_of<C>(*rstd) : nullptr, shape,
                     rms_eps(input.dtype(), eps), data_if_defined<C>(w));
  });
  if (!rows.is_same(out)) copy_elements(out, rows);
}

}  // namespace

static constexpr OpDef nn_layer_norm_rows[] = {
    {.schema = "layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? "
               "bias=None, "
               "float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor",
     .meta = fn<layer_norm_meta>,
     .eager = fn<layer_norm_kernel>,
     .decomp =
         [](const Tensor& input, SymIntList shape, const Tensor& weight, const Tensor& bias,
            double eps,
            bool) { return std::get<0>(native_layer_norm(input, shape, weight, bias, eps)); }},
    {.schema =
         "native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, "
         "float eps) -> (Tensor, Tensor, Tensor)",
     .core = true,
     .meta = fn<native_layer_norm_meta>,
     .eager = fn<native_layer_norm_kernel>,
     .decomp = fn<native_layer_norm_decomp>,
     .vjp = {{"input, weight, bias",
              "grad?, grad1?, grad2?, input, normalized_shape, result1, result2, weight, bias, "
              "needs",
              fn<layer_norm_vjp>}}},
    {.schema = "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, "
               "float eps=1.0000000000000001e-05, bool cudnn_enabled=True) -> Tensor",
     .decomp = fn<group_norm_decomp>},
    {.schema = "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, "
               "SymInt HxW, "
               "int group, float eps) -> (Tensor, Tensor, Tensor)",
     .core = true,
     .meta = fn<native_group_norm_meta>,
     .eager = fn<native_group_norm_kernel>,
     .decomp = fn<native_group_norm_decomp>,
     .vjp = {{"input, weight, bias",
              "grad?, grad1?, grad2?, input, result1, result2, weight, N, C, HxW, group, needs",
              fn<group_norm_vjp>}}},
    {.schema = "rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? "
               "eps=None) -> Tensor",
     .meta = fn<rms_norm_meta>,
     .eager =
         [](Tensor& out, const Tensor& input, SymIntList shape, const Tensor& weight,
            std::optional<double> eps) {
           run_rms_norm(out, nullptr, input, shape.size(), weight, eps);
         },
     .decomp =
         [](const Tensor& input, SymIntList shape, const Tensor& weight,
            std::optional<double> eps) {
           return std::get<0>(rms_norm_parts(input, shape, weight, eps));
         }},
    {.schema =
         "_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> "
         "(Tensor, Tensor)",
     .meta =
         [](const Tensor& input, IntList shape, const Tensor& weight, std::optional<double> eps) {
           TensorMeta out = rms_norm_meta(input, shape, weight, eps);
           Dims sizes = statistics_sizes(input, n_outer_dims("rms_norm", input, shape));
           return std::array<TensorMeta, 2>{
               out, contiguous_meta(list_of(sizes), compute_dtype(input.dtype()), input.device())};
         },
     .eager =
         [](Tensor& out, Tensor& rstd, const Tensor& input, IntList shape, const Tensor& weight,
            std::optional<double> eps) {
           run_rms_norm(out, &rstd, input, shape.size(), weight, eps);
         },
     .decomp = [](const Tensor& input, IntList shape, const Tensor& weight,
                  std::optional<double> eps) { return rms_norm_parts(input, shape, weight, eps); }},
};

extern constinit const OpFamily op_family_nn_layer_norm{nn_layer_norm_rows};

}  // namespace tenon::ops
