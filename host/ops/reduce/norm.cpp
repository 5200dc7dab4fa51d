// Moments and norms: var, std, norm, logsumexp.
#include "core/kernels/level_table.h"
#include "core/kernels/pointwise_loop.h"
#include "core/sym/sym_int.h"
#include "ops/forms/complex_forms.h"
#include "ops/op.h"
#include "ops/promotion.h"
#include "ops/reduce/reduce_loop.h"
#include "ops/shape_check.h"
#include "ops/shapes.h"
#include "ops/vjp_rules.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/nn.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

#include <cmath>
#include <limits>

namespace tenon::ops {

namespace {

using Type = std::optional<Dtype>;
using Correction = std::optional<Number>;

double plus(double a, double b) { return a + b; }

// Welford's running moments, joined by Chan's rule; neighbours in blocks, twice over each, so that
// there is no division an element.
template <class T, bool root>
struct Variance {
  struct State {
    double mean = 0, squares = 0, n = 0;
  };
  T* out;
  T* mean;  // or null
  double correction;
  State start() const { return {}; }
  void step(State& s, T x, int64_t) const {
    double value = static_cast<double>(x), delta = value - s.mean;
    s.n += 1;
    s.mean += delta / s.n;
    s.squares += delta * (value - s.mean);
  }
  void fold(State& s, const T* x, int64_t n, int64_t) const {
    constexpr int64_t block = 1024;
    for (int64_t i = 0; i < n; i += block) {
      int64_t size = std::min(block, n - i);
      auto sum = [](double& part, T value) { part += static_cast<double>(value); };
      double mean_of_block = fold_in_parts(0.0, x + i, size, sum, plus) / static_cast<double>(size);
      auto square = [mean_of_block](double& part, T value) {
        double delta = static_cast<double>(value) - mean_of_block;
        part += delta * delta;
      };
      double squares = fold_in_parts(0.0, x + i, size, square, plus);
      s = join(s, {mean_of_block, squares, static_cast<double>(size)});
    }
  }
  State join(State a, State b) const {
    double n = a.n + b.n, delta = b.mean - a.mean;
    if (n == 0) return a;
    return {a.mean + delta * b.n / n, a.squares + b.squares + delta * delta * a.n * b.n / n, n};
  }
  void store(int64_t at, State s, int64_t) const {
    double variance = s.squares / std::max(0.0, s.n - correction);
    out[at] = static_cast<T>(root ? std::sqrt(variance) : variance);
    // Of infinite elements the mean would depend on where they stand.
    const bool is_known = s.n > 0 && !std::isnan(s.squares);
    if (mean)
      mean[at] = static_cast<T>(is_known ? s.mean : std::numeric_limits<double>::quiet_NaN());
  }
};

uint64_t mask_of(const Tensor& self, OptIntList dims) { return dims_mask(dims, self.dim()); }

TensorMeta var_meta(const Tensor& self, uint64_t mask, bool keepdim) {
  require(is_floating(self.dtype()),
          "var, std: a floating dtype is expected, found {}; cast the input", self.dtype());
  return reduced_meta(self, mask, keepdim, self.dtype());
}

template <bool root>
void var_kernel(Tensor& out, const Tensor* mean, const Tensor& self, uint64_t mask,
                double correction) {
  dispatch_floating(self.dtype(), "var, std", [&]<class T>() {
    reduce<T>(self, out, mask,
              Variance<T, root>{data_of<T>(out), mean ? data_of<T>(*mean) : nullptr, correction});
  });
}

constexpr auto var_meta_row = [](const Tensor& self, OptIntList dims, Correction, bool keepdim) {
  return var_meta(self, mask_of(self, dims), keepdim);
};
constexpr auto var_mean_meta_row = [](const Tensor& self, OptIntList dims, Correction,
                                      bool keepdim) {
  TensorMeta meta = var_meta(self, mask_of(self, dims), keepdim);
  return std::array<TensorMeta, 2>{meta, meta};
};
template <bool root>
constexpr auto var_row =
    [](Tensor& out, const Tensor& self, OptIntList dims, Correction correction, bool) {
      var_kernel<root>(out, nullptr, self, mask_of(self, dims), correction.value_or(1).to_double());
    };
template <bool root>
constexpr auto var_mean_row = [](Tensor& out, Tensor& mean, const Tensor& self, OptIntList dims,
                                 Correction correction, bool) {
  var_kernel<root>(out, &mean, self, mask_of(self, dims), correction.value_or(1).to_double());
};

// NaN where an element is infinite, as that of the kernel.
Tensor finite_mean(const Tensor& self, OptIntList dims, bool keepdim) {
  Tensor plain = mean(self, dims, keepdim);
  return where(isinf(plain), std::numeric_limits<double>::quiet_NaN(), plain);
}

Number correction_for(bool unbiased) { return unbiased ? 1 : 0; }

// ---- norms

// sum |x|^p to the power 1/p, with the limits 0, inf and -inf. The largest magnitude is kept beside
// the sum of squares, so that 2-norms neither overflow nor vanish.
template <class T, class Out>
struct Norm {
  using State = double;
  Out* out;
  double p;
  State start() const { return p == -INFINITY ? INFINITY : 0; }
  void step(State& s, T x, int64_t) const {
    double v = std::fabs(static_cast<double>(x));
    if (p == 2)
      s += v * v;
    else if (p == 1)
      s += v;
    else if (p == 0)
      s += v != 0;
    else if (p == INFINITY)
      s = v > s || v != v ? v : s;
    else if (p == -INFINITY)
      s = v < s || v != v ? v : s;
    else
      s += std::pow(v, p);
  }
  void fold(State& s, const T* x, int64_t n, int64_t index) const {
    if constexpr (std::is_floating_point_v<T>)
      if (p == 2 || p == 1) {
        auto fold = p == 2 ? kernels::WideFold::squares : kernels::WideFold::magnitudes;
        s += kernels::row_level<T>().fold_wide(fold, x, n);
        return;
      }
    auto add_square = [](double& part, T value) {
      auto v = static_cast<double>(value);
      part += v * v;
    };
    auto add_size = [](double& part, T value) { part += std::fabs(static_cast<double>(value)); };
    if (p == 2)
      s += fold_in_parts(0.0, x, n, add_square, plus);
    else if (p == 1)
      s += fold_in_parts(0.0, x, n, add_size, plus);
    else
      for (int64_t i = 0; i < n; ++i) step(s, x[i], index + i);
  }
  State join(State a, State b) const {
    if (p == INFINITY) return b > a || b != b ? b : a;
    if (p == -INFINITY) return b < a || b != b ? b : a;
    return a + b;
  }
  void store(int64_t at, State s, int64_t) const {
    bool plain = p == 1 || p == 0 || std::isinf(p);
    out[at] = static_cast<Out>(plain ? s : p == 2 ? std::sqrt(s) : std::pow(s, 1 / p));
  }
};

TensorMeta norm_meta(const Tensor& self, Number, OptIntList dims, bool keepdim, Type dtype) {
  Dtype result = dtype.value_or(self.dtype());
  require(is_floating(result), "norm: a floating dtype is expected, found {}; cast the input",
          result);
  return reduced_meta(self, mask_of(self, dims), keepdim, result);
}

void norm_kernel(Tensor& out, const Tensor& self, Number p, OptIntList dims, bool, Type) {
  Tensor in = self.dtype() == out.dtype() ? self : converted(self, out.dtype());
  double order = p.to_double();
  dispatch_floating(in.dtype(), "norm", [&]<class T>() {
    reduce<T>(in, out, mask_of(self, dims), Norm<T, T>{data_of<T>(out), order});
  });
}

// ---- logsumexp

// The maximum so far and the sum of exponentials relative to it.
template <class T>
struct LogSumExp {
  struct State {
    double max = -INFINITY, sum = 0;
  };
  T* out;
  State start() const { return {}; }
  void step(State& s, T x, int64_t) const { s = join(s, {static_cast<double>(x), 1}); }
  State join(State a, State b) const {
    if (b.sum == 0) return a;
    if (a.sum == 0) return b;
    if (a.max == b.max) return {a.max, a.sum + b.sum};  // also both infinite
    bool a_larger = a.max > b.max || a.max != a.max;
    const State &large = a_larger ? a : b, &small = a_larger ? b : a;
    return {large.max, large.sum + small.sum * std::exp(small.max - large.max)};
  }
  void store(int64_t at, State s, int64_t) const {
    out[at] = static_cast<T>(s.max + std::log(s.sum));
  }
};

TensorMeta logsumexp_meta(const Tensor& self, IntList dims, bool keepdim) {
  require_real("logsumexp", self.dtype());
  Dtype dtype = is_floating(self.dtype()) ? self.dtype() : Dtype::f32;
  return reduced_meta(self, mask_of(self, OptIntList(dims)), keepdim, dtype);
}

// The largest elements, for logsumexp. A dimension that may be empty in the run has one of -inf
// more, since there is no maximum of none.
Tensor tops(Tensor x, IntList dims) {
  uint64_t mask = mask_of(x, OptIntList(dims));
  std::vector<SymInt> more(2 * static_cast<size_t>(x.dim()), SymInt(0));  // from the last dimension
  bool any = false;
  for (int64_t d = 0; d < x.dim(); ++d) {
    if (!(mask >> d & 1) || decided(x.size(d) == 0)) continue;
    more[2 * static_cast<size_t>(x.dim() - d) - 1] = 1;
    any = true;
  }
  if (any) x = constant_pad_nd(x, more, -std::numeric_limits<double>::infinity());
  return amax(x, dims, true);
}

Tensor logsumexp_decomp(const Tensor& self, IntList dim, bool keepdim) {
  Dtype dtype = to_float_type(self.dtype());
  Tensor x = to(self, computing_dtype(dtype));
  if (guard_or_false(x.numel() == 0)) return to(log(sum(exp(x), dim, keepdim)), dtype);
  Tensor top = tops(x, dim), shift = where(isinf(top), full({}, 0, x.dtype()), top);
  Tensor logs = log(sum(exp(sub(x, shift)), dim, keepdim));
  return to(add(logs, keepdim ? shift : reshape(shift, logs.sizes())), dtype);
}

// What is large goes by the vector kernels of the parts, of single precision.
void logsumexp_kernel(Tensor& out, const Tensor& self, IntList dims, bool keepdim) {
  constexpr int64_t large = 1024;
  if (out.dtype() != Dtype::f64 && numel_of(self) >= large)
    return copy_elements(out, logsumexp_decomp(self, dims, keepdim));
  Tensor in = self.dtype() == out.dtype() ? self : converted(self, out.dtype());
  dispatch_floating(in.dtype(), "logsumexp", [&]<class T>() {
    reduce<T>(in, out, mask_of(self, OptIntList(dims)), LogSumExp<T>{data_of<T>(out)});
  });
}

Tensor var_vjp(const Tensor& g, const Tensor& x, OptIntList dim, std::optional<Number> correction,
               bool keepdim) {
  Number c = correction.value_or(Number(1));
  SymInt n = n_reduced(x.sizes(), dim);
  Tensor mean = dim && !dim->empty() ? x.mean(*dim, true) : x.mean();
  Tensor wide = unreduced(g, x.sizes(), dim, keepdim);
  return wide.mul(x.sub(mean)).mul(2.0).div(full({}, n, x.dtype()).sub(c).clamp_min(0));
}

Tensor std_vjp(const Tensor& g, const Tensor& x, const Tensor& std, OptIntList dim,
               std::optional<Number> correction, bool keepdim) {
  Tensor of_var = g.div(std.mul(2)).masked_fill(std.eq(0), 0);
  return var_vjp(of_var, x, dim, correction, keepdim);
}

Tensor with_mean_vjp(const Tensor& so_far, const Tensor& g_mean, SymIntList sizes, OptIntList dim,
                     bool keepdim) {
  if (!g_mean.defined()) return so_far;
  Tensor part = unreduced(g_mean, sizes, dim, keepdim).div(Number(n_reduced(sizes, dim)));
  return so_far.defined() ? so_far.add(part) : part;
}

// By order: 0 counts, 1 has signs, 2 the direction, infinity the largest elements in equal shares.
Tensor vector_norm_vjp(const Tensor& grad, const Tensor& x, const Tensor& result, Number ord,
                       OptIntList dim, bool keepdim) {
  double p = ord.to_double();
  if (p == 0) return x.zeros_like();
  Tensor g = unreduced(grad.to(x.dtype()), x.sizes(), dim, keepdim);
  if (p == 1) return g.mul(x.sign());
  if (std::isinf(p))
    return x.sign().mul(shared_out(grad, x.abs(), result, dim, keepdim || x.dim() == 0));
  Tensor norm = unreduced(result.to(x.dtype()), x.sizes(), dim, keepdim);
  if (p == 2) return x.mul(g.div(norm)).masked_fill(norm.eq(0), 0);
  Tensor size = x.abs();
  Tensor power = p < 1   ? x.sign().mul(size.pow(p - 1).masked_fill(x.eq(0), 0))
                 : p < 2 ? x.sign().mul(size.pow(p - 1))
                         : x.mul(size.pow(p - 2));
  return power.mul(g.div(norm.pow(p - 1))).masked_fill(norm.eq(0), 0);
}

}  // namespace

static constexpr OpDef reduce_norm_rows[] = {
    {.schema = "var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, "
               "bool keepdim=False) -> Tensor",
     .tags = OpTags::reduction,
     .core = true,
     .meta = var_meta_row,
     .eager = var_row<false>,
     .vjp = {{"self", "grad, self, dim, correction, keepdim", fn<var_vjp>}}},
    {.schema = "std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, "
               "bool keepdim=False) -> Tensor",
     .tags = OpTags::reduction,
     .meta = var_meta_row,
     .eager = var_row<true>,
     .decomp = [](const Tensor& self, OptIntList dim, std::optional<Number> correction,
                  bool keepdim) { return sqrt(var(self, dim, correction, keepdim)); },
     .vjp = {{"self", "grad, self, result, dim, correction, keepdim", fn<std_vjp>}}},
    {.schema = "var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, "
               "bool keepdim=False) -> (Tensor, Tensor)",
     .tags = OpTags::reduction,
     .meta = var_mean_meta_row,
     .eager = var_mean_row<false>,
     .decomp =
         [](const Tensor& self, OptIntList dim, std::optional<Number> correction, bool keepdim) {
           return std::tuple(var(self, dim, correction, keepdim), finite_mean(self, dim, keepdim));
         },
     .vjp = {{"self", "grad0?, grad1?, self, dim, correction, keepdim",
              [](const Tensor& g, const Tensor& g_mean, const Tensor& x, OptIntList dim,
                 std::optional<Number> correction, bool keepdim) {
                Tensor out = g.defined() ? var_vjp(g, x, dim, correction, keepdim) : Tensor();
                return with_mean_vjp(out, g_mean, x.sizes(), dim, keepdim);
              }}}},
    {.schema = "std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, "
               "bool keepdim=False) -> (Tensor, Tensor)",
     .tags = OpTags::reduction,
     .meta = var_mean_meta_row,
     .eager = var_mean_row<true>,
     .decomp =
         [](const Tensor& self, OptIntList dim, std::optional<Number> correction, bool keepdim) {
           return std::tuple(sqrt(var(self, dim, correction, keepdim)),
                             finite_mean(self, dim, keepdim));
         },
     .vjp = {{"self", "grad0?, grad1?, self, result, dim, correction, keepdim",
              [](const Tensor& g, const Tensor& g_mean, const Tensor& x, const Tensor& std,
                 OptIntList dim, std::optional<Number> correction, bool keepdim) {
                Tensor out = g.defined() ? std_vjp(g, x, std, dim, correction, keepdim) : Tensor();
                return with_mean_vjp(out, g_mean, x.sizes(), dim, keepdim);
              }}}},
    {.schema = "var(Tensor self, bool unbiased=True) -> Tensor",
     .tags = OpTags::reduction,
     .decomp =
         [](const Tensor& self, bool unbiased) {
           return var(self, OptIntList(), correction_for(unbiased), false);
         }},
    {.schema =
         "var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
     .tags = OpTags::reduction,
     .core = true,
     .decomp = [](const Tensor& self, OptIntList dims, bool unbiased,
                  bool keepdim) { return var(self, dims, correction_for(unbiased), keepdim); }},
    {.schema = "std(Tensor self, bool unbiased=True) -> Tensor",
     .tags = OpTags::reduction,
     .decomp =
         [](const Tensor& self, bool unbiased) {
           return tenon::std(self, OptIntList(), correction_for(unbiased), false);
         }},
    {.schema =
         "std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
     .tags = OpTags::reduction,
     .decomp =
         [](const Tensor& self, OptIntList dims, bool unbiased, bool keepdim) {
           return tenon::std(self, dims, correction_for(unbiased), keepdim);
         }},
    {.schema = "var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
     .tags = OpTags::reduction,
     .decomp =
         [](const Tensor& self, bool unbiased) {
           return var_mean(self, OptIntList(), correction_for(unbiased), false);
         }},
    {.schema = "var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> "
               "(Tensor, Tensor)",
     .tags = OpTags::reduction,
     .decomp =
         [](const Tensor& self, OptIntList dims, bool unbiased, bool keepdim) {
           return var_mean(self, dims, correction_for(unbiased), keepdim);
         }},
    {.schema = "std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
     .tags = OpTags::reduction,
     .decomp =
         [](const Tensor& self, bool unbiased) {
           return std_mean(self, OptIntList(), correction_for(unbiased), false);
         }},
    {.schema = "std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> "
               "(Tensor, Tensor)",
     .tags = OpTags::reduction,
     .decomp =
         [](const Tensor& self, OptIntList dims, bool unbiased, bool keepdim) {
           return std_mean(self, dims, correction_for(unbiased), keepdim);
         }},
    {.schema =
         "linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
         "ScalarType? dtype=None) -> Tensor",
     .tags = OpTags::reduction,
     .meta = fn<norm_meta>,
     .eager = fn<norm_kernel>,
     .complex = fn<complex_vector_norm>,
     .vjp = {{"self", "grad, self, result, ord, dim, keepdim", fn<vector_norm_vjp>}}},
    {.schema = "norm.Scalar(Tensor self, Scalar p=2) -> Tensor",
     .tags = OpTags::reduction,
     .decomp = [](const Tensor& self,
                  Number p) { return linalg_vector_norm(self, p, {}, false, std::nullopt); }},
    {.schema =
         "norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
     .tags = OpTags::reduction,
     .decomp =
         [](const Tensor& self, std::optional<Number> p, IntList dim, bool keepdim) {
           return linalg_vector_norm(self, p.value_or(2), OptIntList(dim), keepdim, std::nullopt);
         }},
    {.schema = "norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, "
               "ScalarType dtype) -> Tensor",
     .tags = OpTags::reduction,
     .decomp =
         [](const Tensor& self, std::optional<Number> p, IntList dim, bool keepdim, Dtype dtype) {
           return linalg_vector_norm(self, p.value_or(2), OptIntList(dim), keepdim, dtype);
         }},
    {.schema = "norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor",
     .tags = OpTags::reduction,
     .decomp =
         [](const Tensor& self, std::optional<Number> p, Dtype dtype) {
           return linalg_vector_norm(self, p.value_or(2), {}, false, dtype);
         }},
    {.schema = "logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
     .tags = OpTags::reduction,
     .meta = fn<logsumexp_meta>,
     .eager = fn<logsumexp_kernel>,
     .decomp = fn<logsumexp_decomp>,
     .vjp = {{"self", "grad, self, result, dim, keepdim",
              [](const Tensor& g, const Tensor& x, const Tensor& y, IntList dim, bool keepdim) {
                Tensor wide = unreduced(y, x.sizes(), OptIntList(dim), keepdim);
                Tensor share = x.sub(wide.masked_fill(wide.isinf(), 0)).exp();
                return unreduced(g, x.sizes(), OptIntList(dim), keepdim).mul(share);
              }}}},
};

extern constinit const OpFamily op_family_reduce_norm{reduce_norm_rows};

}  // namespace tenon::ops
