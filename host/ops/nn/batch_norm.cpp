// Normalisation over the batch: batch_norm with its many native forms.
//
// Model: y = (x - mean[c]) * rstd[c] * weight[c] + bias[c] for each channel c. In training mean and
//   variance are those of the batch and are mixed into the running ones; else the running ones
//   count.
// Method: one kernel for all forms. The running statistics may be written in place (the `legit` and
//   `native` forms) or handed out as results (`functional`). Inputs in channels_last order are seen
//   as rows of channels, so nothing is transposed.
#include "core/kernels/rows/normalize.h"
#include "core/sym/sym_int.h"
#include "ops/kernel_loops.h"
#include "ops/nn/norm_vjp.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include <tenon/ops.h>

#include <cmath>

namespace tenon::ops {

namespace {

using kernels::Compute;

struct Affine {
  const Tensor &weight, &bias, &running_mean, &running_var;
};

// ---- shapes

TensorMeta batch_norm_meta_of(const Tensor& input, const Affine& a, bool training) {
  require(training || (a.running_mean.defined() && a.running_var.defined()),
          "batch_norm: running_mean and running_var are needed outside of training");
  require(a.running_mean.defined() == a.running_var.defined(),
          "batch_norm: running_mean and running_var are given together or not at all");
  require(is_floating(input.dtype()), "batch_norm: a floating dtype is expected, found {}",
          input.dtype());
  require(input.dim() >= 2,
          "batch_norm: input needs a batch and a channel dimension, found shape {}", input.sizes());
  for (const Tensor* t : {&a.weight, &a.bias, &a.running_mean, &a.running_var}) {
    require(!t->defined() || is_floating(t->dtype()),
            "batch_norm: weight, bias and running statistics need a floating dtype, found {}; "
            "cast them to the dtype of input",
            t->defined() ? t->dtype() : input.dtype());
    require(!t->defined() || (t->dim() == 1 && sizes_match(t->size(0), input.size(1))),
            "batch_norm: weight, bias and running statistics need one element for each of {} "
            "channels, found shape {}",
            input.size(1), t->defined() ? t->sizes() : SymIntList());
  }
  return {input.dtype(), input.device(), dims_of(input.sizes()),
          strides_for(input.sizes(), suggest_memory_format(input))};
}

Dtype statistics_dtype(const Tensor& input, const Affine& a) {
  for (const Tensor* t : {&a.weight, &a.bias, &a.running_mean, &a.running_var})
    if (t->defined() && t->dtype() != input.dtype()) return t->dtype();
  return input.dtype();
}

TensorMeta statistics_meta(const Tensor& input, const Affine& a, bool training) {
  return contiguous_meta({training ? input.size(1) : SymInt(0)}, statistics_dtype(input, a),
                         input.device());
}

// ---- the kernel

// Tensors of one element for each channel, in the compute type; a missing one is filled.
Tensor channel_values(const Tensor& t, int64_t channels, Dtype dtype, double missing) {
  if (t.defined()) return converted(t, dtype);
  Tensor filled = make_tensor(IntList{channels}, dtype);
  fill_elements(filled, missing);
  return filled;
}

// Elements as batch x channels x inner, in either memory order.
struct ChannelShape {
  int64_t batch = 1, channels = 1, inner = 1;
};

ChannelShape channel_shape(const Tensor& x, bool channels_last) {
  ChannelShape s{sizes_of(x)[0], sizes_of(x)[1], 1};
  for (size_t d = 2; d < sizes_of(x).size(); ++d) s.inner *= sizes_of(x)[d];
  if (channels_last) s.batch *= std::exchange(s.inner, 1);
  return s;
}

bool lies_channels_last(const Tensor& t) {
  return !t.is_contiguous() && ((t.dim() == 4 && t.is_contiguous(MemoryFormat::channels_last)) ||
                                (t.dim() == 5 && t.is_contiguous(MemoryFormat::channels_last_3d)));
}

struct ChannelMoments {
  Tensor mean, variance_sum;
  int64_t count;
};

template <class T>
ChannelMoments moments_of(const Tensor& x, ChannelShape s, Dtype dtype) {
  ChannelMoments m{make_tensor(IntList{s.channels}, dtype), make_tensor(IntList{s.channels}, dtype),
                   s.batch * s.inner};
  using C = Compute<T>;
  for (const Tensor& t : {m.mean, m.variance_sum}) fill_elements(t, 0);  // those of no elements
  if (m.count > 0)
    kernels::channel_moments<T>(data_of<T>(x), data_of<C>(m.mean), data_of<C>(m.variance_sum),
                                s.batch, s.channels, s.inner);
  return m;
}

template <class C>
void mix_into(const Tensor& running, const C* values, double factor, double momentum) {
  Tensor mixed = converted(running, dtype_of<C>);
  if (mixed.is_same(running)) mixed = running;
  C* at = data_of<C>(mixed);
  for (int64_t i = 0; i < numel_of(mixed); ++i)
    at[i] = static_cast<C>(momentum * (values[i] * factor) + (1 - momentum) * at[i]);
  if (!mixed.is_same(running)) copy_elements(running, mixed);
}

template <class C>
void update_running(const Affine& a, const ChannelMoments& m, double momentum) {
  if (m.count == 0) return;  // nothing to mix in
  if (a.running_mean.defined()) mix_into(a.running_mean, data_of<C>(m.mean), 1, momentum);
  if (a.running_var.defined())
    mix_into(a.running_var, data_of<C>(m.variance_sum), 1.0 / static_cast<double>(m.count - 1),
             momentum);
}

struct Outputs {
  const Tensor &y, &mean, &rstd;
};

// The statistics as they are handed out: 16-bit ones are rounded before they are used, as in ATen.
Tensor rounded(const Tensor& t, Dtype dtype) { return converted(converted(t, dtype), t.dtype()); }

// y = (x - mean) * scale + bias with scale = weight * rstd.
template <class T>
void scale_all(const Tensor& x, const Tensor& y, ChannelShape s, const Affine& a,
               const Tensor& mean, const Tensor& rstd, Dtype dtype) {
  using C = Compute<T>;
  Tensor scale = make_tensor(IntList{s.channels}, dtype);
  Tensor weight = channel_values(a.weight, s.channels, dtype, 1);
  Tensor bias = channel_values(a.bias, s.channels, dtype, 0);
  for (int64_t c = 0; c < s.channels; ++c)
    data_of<C>(scale)[c] = data_of<C>(weight)[c] * data_of<C>(rstd)[c];
  kernels::scale_channels<T>(data_of<T>(x), data_of<T>(y), s.batch, s.channels, s.inner,
                             data_of<C>(mean), data_of<C>(scale), data_of<C>(bias));
}

template <class T>
void batch_norm_typed(const Outputs& out, const Tensor& x, const Tensor& y, ChannelShape s,
                      const Affine& a, bool training, double momentum, double eps) {
  using C = Compute<T>;
  Dtype dtype = dtype_of<C>;
  ChannelMoments m{};
  if (training) m = moments_of<T>(x, s, dtype);
  Tensor mean = training ? m.mean : converted(a.running_mean, dtype);
  Tensor variance = training ? m.variance_sum : converted(a.running_var, dtype);
  Tensor rstd = make_tensor(IntList{s.channels}, dtype);
  C divisor = training ? static_cast<C>(std::max<int64_t>(m.count, 1)) : C(1);
  for (int64_t c = 0; c < s.channels; ++c)
    data_of<C>(rstd)[c] = 1 / std::sqrt(data_of<C>(variance)[c] / divisor + static_cast<C>(eps));
  if (training) {
    Dtype kept = statistics_dtype(x, a);
    mean = rounded(mean, kept);
    rstd = rounded(rstd, kept);
  }
  if (numel_of(x) > 0) scale_all<T>(x, y, s, a, mean, rstd, dtype);
  if (!training) return;
  if (out.mean.defined()) copy_elements(out.mean, mean);
  if (out.rstd.defined()) copy_elements(out.rstd, rstd);
  update_running<C>(a, m, momentum);
}

// `out.mean` and `out.rstd` may be undefined. Running statistics are written in training.
void run_batch_norm(const Outputs& out, const Tensor& input, const Affine& a, bool training,
                    double momentum, double eps) {
  bool channels_last = lies_channels_last(input) && lies_channels_last(out.y);
  Tensor x = channels_last ? input : contiguous_of(input);
  bool direct = channels_last || out.y.is_contiguous();
  Tensor y = direct ? out.y : make_tensor(contiguous_meta(input.sizes(), input.dtype()));
  dispatch_floating(input.dtype(), "batch_norm", [&]<class T>() {
    batch_norm_typed<T>(out, x, y, channel_shape(x, channels_last), a, training, momentum, eps);
  });
  if (!direct) copy_elements(out.y, y);
}

void bump_running(const Affine& a) {
  if (a.running_mean.defined()) bump_version(a.running_mean);
  if (a.running_var.defined()) bump_version(a.running_var);
}

// ---- rows

std::array<TensorMeta, 3> three_metas(const Tensor& input, const Affine& a, bool training) {
  TensorMeta out = batch_norm_meta_of(input, a, training),
             statistics = statistics_meta(input, a, training);
  return {std::move(out), statistics, statistics};
}

std::array<TensorMeta, 3> native_meta(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                      const Tensor& running_mean, const Tensor& running_var,
                                      bool training, double, double) {
  return three_metas(input, {weight, bias, running_mean, running_var}, training);
}

void native_kernel(Tensor& y, Tensor& mean, Tensor& rstd, const Tensor& input, const Tensor& weight,
                   const Tensor& bias, const Tensor& running_mean, const Tensor& running_var,
                   bool training, double momentum, double eps) {
  Affine a{weight, bias, running_mean, running_var};
  run_batch_norm({y, mean, rstd}, input, a, training, momentum, eps);
  if (training) bump_running(a);
}

// A vector of no elements needs no channels; PyTorch takes it.
bool is_empty_vector(const Tensor& t) { return t.dim() == 1 && sizes_match(t.size(0), 0); }

void batch_norm_kernel(Tensor& y, const Tensor& input, const Tensor& weight, const Tensor& bias,
                       const Tensor& running_mean, const Tensor& running_var, bool training,
                       double momentum, double eps, bool) {
  if (is_empty_vector(input)) return;
  Affine a{weight, bias, running_mean, running_var};
  run_batch_norm({y, undefined_tensor(), undefined_tensor()}, input, a, training, momentum, eps);
  if (training) bump_running(a);
}

Tensor batch_norm_decomp(const Tensor& input, const Tensor& weight, const Tensor& bias,
                         const Tensor& running_mean, const Tensor& running_var, bool training,
                         double momentum, double eps, bool) {
  if (is_empty_vector(input)) return clone(input);
  if (!training)
    return std::get<0>(_native_batch_norm_legit_no_training(input, weight, bias, running_mean,
                                                            running_var, momentum, eps));
  if (!running_mean.defined())
    return std::get<0>(_native_batch_norm_legit(input, weight, bias, true, momentum, eps));
  return std::get<0>(_native_batch_norm_legit(input, weight, bias, running_mean, running_var, true,
                                              momentum, eps));
}

void functional_kernel(Tensor& y, Tensor& mean, Tensor& rstd, Tensor& mean_out, Tensor& var_out,
                       const Tensor& input, const Tensor& weight, const Tensor& bias,
                       const Tensor& running_mean, const Tensor& running_var, bool training,
                       double momentum, double eps) {
  copy_elements(mean_out, running_mean);
  copy_elements(var_out, running_var);
  run_batch_norm({y, mean, rstd}, input, {weight, bias, mean_out, var_out}, training, momentum,
                 eps);
}

std::array<TensorMeta, 5> functional_meta(const Tensor& input, const Tensor& weight,
                                          const Tensor& bias, const Tensor& running_mean,
                                          const Tensor& running_var, bool training, double,
                                          double) {
  std::array<TensorMeta, 3> m =
      three_metas(input, {weight, bias, running_mean, running_var}, training);
  auto copy_of = [](const Tensor& t) { return contiguous_meta(t.sizes(), t.dtype(), t.device()); };
  return {m[0], m[1], m[2], copy_of(running_mean), copy_of(running_var)};
}

// ---- decomposition of the native forms

Tensor along_channels(const Tensor& t, int64_t rank) {
  Dims sizes(static_cast<size_t>(rank), SymInt(1));
  sizes[1] = t.size(0);
  return reshape(t, list_of(sizes));
}

struct Parts {
  Tensor y, mean, rstd, running_mean, running_var;
};

Tensor normalized(const Tensor& input, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                  const Affine& a) {
  int64_t rank = input.dim();
  Tensor y = mul(sub(x, mean), rstd);
  if (a.weight.defined()) y = mul(y, along_channels(a.weight, rank));
  if (a.bias.defined()) y = add(y, along_channels(a.bias, rank));
  return to(y, input.dtype());
}

Parts inference_parts(const Tensor& input, const Affine& a, double eps) {
  Dtype dtype = input.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  Tensor mean = along_channels(to(a.running_mean, dtype), input.dim());
  Tensor rstd = along_channels(rsqrt(add(to(a.running_var, dtype), eps)), input.dim());
  Tensor none = new_empty(input, {0}, statistics_dtype(input, a));
  return {normalized(input, to(input, dtype), mean, rstd, a), none, none, a.running_mean,
          a.running_var};
}

Tensor mixed(const Tensor& running, const Tensor& value, double momentum) {
  return to(add(mul(value, momentum), mul(running, 1 - momentum)), running.dtype());
}

// The moments of no elements are those of one 0, and the running statistics stay.
Parts training_parts(const Tensor& input, const Affine& a, double momentum, double eps) {
  Dtype dtype = input.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32,
        kept = statistics_dtype(input, a);
  std::vector<int64_t> dims = {0};
  for (int64_t d = 2; d < input.dim(); ++d) dims.push_back(d);
  Tensor x = to(input, dtype);
  SymInt n = elements_of_channel(input);
  bool is_empty = guard_or_false(n == 0);
  if (is_empty) momentum = 0;
  Tensor counted = is_empty ? along_channels(new_zeros(x, {x.size(1)}), x.dim()) : x;
  Tensor variance = var(counted, dims, Number(0), true), mean = tenon::mean(counted, dims, true);
  Tensor rstd = rsqrt(add(variance, eps));
  Parts parts{normalized(input, x, mean, rstd, a), to(reshape(mean, {input.size(1)}), kept),
              to(reshape(rstd, {input.size(1)}), kept)};
  if (a.running_mean.defined())
    parts.running_mean = mixed(a.running_mean, reshape(mean, {input.size(1)}), momentum);
  if (!a.running_var.defined()) return parts;
  Tensor unbiased = mul(reshape(variance, {input.size(1)}), Number(sym_truediv(n, n - 1)));
  parts.running_var = mixed(a.running_var, unbiased, momentum);
  return parts;
}

Parts parts_of(const Tensor& input, const Affine& a, bool training, double momentum, double eps) {
  batch_norm_meta_of(input, a, training);
  return training ? training_parts(input, a, momentum, eps) : inference_parts(input, a, eps);
}

using Triple = std::tuple<Tensor, Tensor, Tensor>;
using Quintuple = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

Quintuple functional_decomp(const Tensor& input, const Tensor& weight, const Tensor& bias,
                            const Tensor& running_mean, const Tensor& running_var, bool training,
                            double momentum, double eps) {
  Parts p = parts_of(input, {weight, bias, running_mean, running_var}, training, momentum, eps);
  return {p.y, p.mean, p.rstd, p.running_mean, p.running_var};
}

// ---- forms with a reserve for a device's library, which is empty here

TensorMeta reserve_meta(const Tensor& input) {
  return contiguous_meta({0}, Dtype::u8, input.device());
}

std::array<TensorMeta, 4> with_reserve(std::array<TensorMeta, 3> m, const Tensor& input) {
  return {m[0], m[1], m[2], reserve_meta(input)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> with_reserve(Triple made, const Tensor& input) {
  auto& [y, mean, rstd] = made;
  return {y, mean, rstd, new_empty(input, {0}, Dtype::u8)};
}

}  // namespace

static constexpr OpDef nn_batch_norm_rows[] = {
    {.schema = "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
               "Tensor? running_var, "
               "bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor",
     .tags = OpTags::updates_statistics,
     .meta =
         [](const Tensor& input, const Tensor& weight, const Tensor& bias,
            const Tensor& running_mean, const Tensor& running_var, bool training, double, double,
            bool) {
           if (is_empty_vector(input)) return like(input);
           return batch_norm_meta_of(input, {weight, bias, running_mean, running_var}, training);
         },
     .eager = fn<batch_norm_kernel>,
     .decomp = fn<batch_norm_decomp>},
    {.schema =
         "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
         "Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, "
         "Tensor)",
     .tags = OpTags::updates_statistics,
     .meta = fn<native_meta>,
     .eager = fn<native_kernel>,
     .vjp = {{"input, weight, bias",
              "grad?, grad1?, grad2?, input, weight, running_mean unless training, "
              "running_var unless training, result1, result2, training, eps, needs",
              fn<batch_norm_vjp>}}},
    {.schema = "_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) "
               "running_mean, "
               "Tensor(b!) running_var, bool training, float momentum, float eps) -> (Tensor, "
               "Tensor, Tensor)",
     .tags = OpTags::updates_statistics,
     .core = true,
     .meta = fn<native_meta>,
     .eager = fn<native_kernel>,
     .vjp = {{"input, weight, bias",
              "grad?, grad1?, grad2?, input, weight, running_mean unless training, "
              "running_var unless training, result1, result2, training, eps, needs",
              fn<batch_norm_vjp>}}},
    {.schema = "_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool "
               "training, "
               "float momentum, float eps) -> (Tensor, Tensor, Tensor)",
     .core = true,
     .meta =
         [](const Tensor& input, const Tensor& weight, const Tensor& bias, bool, double, double) {
           return three_metas(input, {weight, bias, undefined_tensor(), undefined_tensor()}, true);
         },
     .eager =
         [](Tensor& y, Tensor& mean, Tensor& rstd, const Tensor& input, const Tensor& weight,
            const Tensor& bias, bool, double momentum, double eps) {
           run_batch_norm({y, mean, rstd}, input,
                          {weight, bias, undefined_tensor(), undefined_tensor()}, true, momentum,
                          eps);
         },
     .decomp =
         [](const Tensor& input, const Tensor& weight, const Tensor& bias, bool, double momentum,
            double eps) {
           Parts p = parts_of(input, {weight, bias, undefined_tensor(), undefined_tensor()}, true,
                              momentum, eps);
           return Triple{p.y, p.mean, p.rstd};
         },
     .vjp = {{"input, weight, bias",
              "grad?, grad1?, grad2?, input, weight, result1, result2, training, eps, needs",
              fn<batch_norm_without_statistics_vjp>}}},
    {.schema =
         "_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, "
         "Tensor running_mean, Tensor running_var, bool training, float momentum, float eps) -> "
         "(Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)",
     .core = true,
     .meta = fn<functional_meta>,
     .eager = fn<functional_kernel>,
     .decomp = fn<functional_decomp>,
     .vjp = {{"input, weight, bias",
              "grad?, grad1?, grad2?, input, weight, running_mean unless training, "
              "running_var unless training, result1, result2, training, eps, needs",
              fn<batch_norm_vjp>}}},
    {.schema = "_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, "
               "Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, "
               "Tensor, Tensor)",
     .core = true,
     .meta =
         [](const Tensor& input, const Tensor& weight, const Tensor& bias,
            const Tensor& running_mean, const Tensor& running_var, double, double) {
           return three_metas(input, {weight, bias, running_mean, running_var}, false);
         },
     .eager =
         [](Tensor& y, Tensor& mean, Tensor& rstd, const Tensor& input, const Tensor& weight,
            const Tensor& bias, const Tensor& running_mean, const Tensor& running_var,
            double momentum, double eps) {
           run_batch_norm({y, mean, rstd}, input, {weight, bias, running_mean, running_var}, false,
                          momentum, eps);
         },
     .decomp =
         [](const Tensor& input, const Tensor& weight, const Tensor& bias,
            const Tensor& running_mean, const Tensor& running_var, double momentum, double eps) {
           Parts p =
               parts_of(input, {weight, bias, running_mean, running_var}, false, momentum, eps);
           return Triple{p.y, p.mean, p.rstd};
         },
     .vjp = {{"input, weight, bias",
              "grad, input, weight, running_mean, running_var, result1, result2, eps, needs",
              fn<batch_norm_inference_vjp>}}},
    {.schema =
         "_batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) "
         "running_mean, "
         "Tensor(b!) running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
     .meta =
         [](const Tensor& input, const Tensor& weight, const Tensor& bias,
            const Tensor& running_mean, const Tensor& running_var, double, double) {
           return with_reserve(three_metas(input, {weight, bias, running_mean, running_var}, true),
                               input);
         },
     .eager =
         [](Tensor& y, Tensor& mean, Tensor& rstd, Tensor&, const Tensor& input,
            const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
            const Tensor& running_var, double momentum, double eps) {
           native_kernel(y, mean, rstd, input, weight, bias, running_mean, running_var, true,
                         momentum, eps);
         },
     .decomp =
         [](const Tensor& input, const Tensor& weight, const Tensor& bias,
            const Tensor& running_mean, const Tensor& running_var, double momentum, double eps) {
           return with_reserve(_native_batch_norm_legit(input, weight, bias, running_mean,
                                                        running_var, true, momentum, eps),
                               input);
         }},
    {.schema =
         "_batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
         "Tensor? running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
     .meta =
         [](const Tensor& input, const Tensor& weight, const Tensor& bias,
            const Tensor& running_mean, const Tensor& running_var, double, double) {
           return with_reserve(three_metas(input, {weight, bias, running_mean, running_var}, false),
                               input);
         },
     .eager =
         [](Tensor& y, Tensor& mean, Tensor& rstd, Tensor&, const Tensor& input,
            const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
            const Tensor& running_var, double momentum, double eps) {
           run_batch_norm({y, mean, rstd}, input, {weight, bias, running_mean, running_var}, false,
                          momentum, eps);
         },
     .decomp =
         [](const Tensor& input, const Tensor& weight, const Tensor& bias,
            const Tensor& running_mean, const Tensor& running_var, double momentum, double eps) {
           return with_reserve(_native_batch_norm_legit_no_training(
                                   input, weight, bias, running_mean, running_var, momentum, eps),
                               input);
         }},
};

extern constinit const OpFamily op_family_nn_batch_norm{nn_batch_norm_rows};

}  // namespace tenon::ops
