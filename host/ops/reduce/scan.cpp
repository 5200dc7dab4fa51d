// Running folds along a dimension: cumsum, cumprod, cummax, cummin, logcumsumexp; and differences.
#include "ops/forms/complex_forms.h"
#include "ops/op.h"
#include "ops/reduce/reduce_loop.h"
#include "ops/shape_check.h"

#include "core/sym/sym_int.h"
#include "core/threads/thread_pool.h"
#include "ops/vjp_rules.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/view.h>

#include <cmath>
#include <limits>

namespace tenon::ops {

namespace {

using Type = std::optional<Dtype>;

// `body(input offset, output offset, n, input step, output step)` for each line along `dim`.
template <class F>
void for_each_line(const Tensor& out, const Tensor& in, int64_t dim, const F& body) {
  if (in.dim() == 0) return body(0, 0, 1, 0, 0);
  auto at = static_cast<size_t>(wrap_dim(dim, in.dim()));
  if (numel_of(in) == 0) return;
  Walk<2> walk;
  for (size_t d = 0; d < sizes_of(in).size(); ++d)
    if (d != at) walk.add(sizes_of(in)[d], {strides_of(in)[d], strides_of(out)[d]});
  for_each_offset(walk, [&](const Offsets<2>& o) {
    body(o[0], o[1], sizes_of(in)[at], strides_of(in)[at], strides_of(out)[at]);
  });
}

TensorMeta scan_meta(const Tensor& self, int64_t dim, Type dtype) {
  wrap_dim(dim, self.dim());
  return contiguous_meta(self.sizes(), sum_dtype(self, dtype), self.device());
}

// Lines that lie side by side are folded together, a group of them at a time: element by element
// they would touch memory in the worst order.
template <bool product, class T>
void scan_side_by_side(const T* in, T* out, int64_t n, int64_t in_step, int64_t out_step,
                       int64_t lines) {
  using A = std::conditional_t<is_float_type<T>, double, uint64_t>;
  constexpr int64_t group = 64;
  double work = static_cast<double>(n) * group * 1e-3;
  parallel_for(
      0, (lines + group - 1) / group, 1,
      [&](int64_t lo, int64_t hi) {
        for (int64_t first = lo * group; first < std::min(hi * group, lines); first += group) {
          int64_t width = std::min(group, lines - first);
          A running[group];
          std::fill_n(running, width, A(product ? 1 : 0));
          for (int64_t i = 0; i < n; ++i) {
            const T* from = in + first + i * in_step;
            T* to = out + first + i * out_step;
            for (int64_t k = 0; k < width; ++k) {
              A x = static_cast<A>(from[k]);
              running[k] = product ? running[k] * x : running[k] + x;
              to[k] = static_cast<T>(running[k]);
            }
          }
        }
      },
      work);
}

// The two dimensions of a matrix whose columns are the lines; nothing else is worth a path.
bool is_by_columns(const Tensor& in, const Tensor& out, int64_t dim) {
  return in.dim() == 2 && wrap_dim(dim, 2) == 0 && strides_of(in)[1] == 1 &&
         strides_of(out)[1] == 1;
}

template <bool product>
void scan_kernel(Tensor& out, const Tensor& self, int64_t dim, Type) {
  Tensor in = self.dtype() == out.dtype() ? self : converted(self, out.dtype());
  dispatch_dtype(out.dtype(), product ? "cumprod" : "cumsum", [&]<class T>() {
    using A = std::conditional_t<is_float_type<T>, double, uint64_t>;
    if (is_by_columns(in, out, dim))
      return scan_side_by_side<product>(data_of<T>(in), data_of<T>(out), sizes_of(in)[0],
                                        strides_of(in)[0], strides_of(out)[0], sizes_of(in)[1]);
    for_each_line(out, in, dim,
                  [&](int64_t from, int64_t to, int64_t n, int64_t in_step, int64_t out_step) {
                    A running = product ? 1 : 0;
                    for (int64_t i = 0; i < n; ++i) {
                      A x = static_cast<A>(data_of<T>(in)[from + i * in_step]);
                      running = product ? running * x : running + x;
                      data_of<T>(out)[to + i * out_step] = static_cast<T>(running);
                    }
                  });
  });
}

std::array<TensorMeta, 2> extreme_scan_meta(const Tensor& self, int64_t dim) {
  wrap_dim(dim, self.dim());
  TensorMeta values = contiguous_meta(self.sizes(), self.dtype(), self.device()), indices = values;
  indices.dtype = Dtype::i64;
  return {values, indices};
}

// The last of equal values counts, and NaN stays from where it stands.
template <bool largest>
void extreme_scan_kernel(Tensor& values, Tensor& indices, const Tensor& self, int64_t dim) {
  dispatch_dtype(self.dtype(), largest ? "cummax" : "cummin", [&]<class T>() {
    for_each_line(values, self, dim,
                  [&](int64_t from, int64_t to, int64_t n, int64_t in_step, int64_t out_step) {
                    T best = data_of<T>(self)[from];
                    int64_t index = 0;
                    for (int64_t i = 0; i < n; ++i) {
                      T x = data_of<T>(self)[from + i * in_step];
                      if (is_nan(x) || (!is_nan(best) && (largest ? x >= best : x <= best)))
                        best = x, index = i;
                      data_of<T>(values)[to + i * out_step] = best;
                      data_of<int64_t>(indices)[to + i * out_step] = index;
                    }
                  });
  });
}

void logcumsumexp_kernel(Tensor& out, const Tensor& self, int64_t dim) {
  dispatch_floating(self.dtype(), "logcumsumexp", [&]<class T>() {
    for_each_line(out, self, dim,
                  [&](int64_t from, int64_t to, int64_t n, int64_t in_step, int64_t out_step) {
                    double running = -INFINITY;
                    for (int64_t i = 0; i < n; ++i) {
                      auto x = static_cast<double>(data_of<T>(self)[from + i * in_step]);
                      double high = std::max(running, x), low = std::min(running, x);
                      if (std::isnan(running) || std::isnan(x))
                        running = running + x;
                      else
                        running = std::isinf(high) ? high : high + std::log1p(std::exp(low - high));
                      data_of<T>(out)[to + i * out_step] = static_cast<T>(running);
                    }
                  });
  });
}

Tensor differences(const Tensor& self, int64_t n, int64_t dim, const Tensor& prepend,
                   const Tensor& append) {
  require(n >= 0, "diff: the order must not be negative, found {}", n);
  require(self.dim() > 0, "diff: a tensor with at least one dimension is expected");
  if (n == 0) return clone(self);
  std::vector<Tensor> parts;
  if (prepend.defined()) parts.push_back(prepend);
  parts.push_back(self);
  if (append.defined()) parts.push_back(append);
  Tensor out = parts.size() > 1 ? cat(parts, dim) : self;
  for (int64_t i = 0; i < n; ++i) {
    SymInt size = out.size(dim);
    if (guard_or_false(size == 0)) break;  // further differences are empty, too
    Tensor high = slice(out, dim, SymInt(1)), low = slice(out, dim, SymInt(0), SymInt(-1));
    out = self.dtype() == Dtype::bool_ ? logical_xor(high, low) : high - low;
  }
  return out.is_same(self) ? clone(out) : out;
}

}  // namespace

namespace {

// The general form keeps n times the memory, but is exact where elements are 0.
// In linear time whatever is zero: before the first zero of a row nothing behind it counts, there the
// products of the others do, and behind it all products are 0. What this loses at zeros is its own
// derivative.
Tensor cumprod_vjp_beside_zeros(const Tensor& g, const Tensor& x, const Tensor& y, int64_t dim) {
  Tensor zero = x.eq(0), zeros = zero.cumsum(dim), first = zero.logical_and(zeros.eq(1));
  Tensor others = x.masked_fill(first, 1).cumprod(dim);
  Tensor before = reverse_cumsum(g.mul(y), dim).div(x.masked_fill(zero, 1));
  return where(first, reverse_cumsum(g.mul(others), dim), before.masked_fill(zeros.gt(0), 0));
}

Tensor cumprod_vjp(const Tensor& g, const Tensor& x, const Tensor& y, int64_t dim) {
  if (x.dim() == 0) return g;
  bool has_zero = x.is_fake() || static_cast<bool>(x.detach().eq(0).any());
  if (!has_zero) return reverse_cumsum(g.mul(y), dim).div(x);
  if (x.is_fake() || !thread_modes.grad_enabled) return cumprod_vjp_beside_zeros(g, x, y, dim);
  // To be differentiated again: all products with one factor left out.
  int64_t last = x.dim() - 1;
  Tensor row = x.transpose(dim, last).unsqueeze(-2), weight = g.transpose(dim, last).unsqueeze(-2);
  SymInt n = x.size(dim);
  Dims square = dims_of(x.transpose(dim, last).sizes());
  square.push_back(n);
  Tensor wide = row.expand(list_of(square));
  Tensor self_left_out = eye(n, Dtype::bool_, std::nullopt, x.device());
  Tensor products = wide.masked_fill(self_left_out, 1).cumprod(-1);
  return products.mul(weight).triu().sum({-1}).transpose(dim, last);
}

Tensor cumulative_extremum_vjp(const Tensor& g, SymIntList sizes, int64_t dim,
                               const Tensor& indices) {
  if (sizes.empty()) return g;
  return g.new_zeros(sizes).scatter_add(dim, indices, g);
}

// A number whose exponential is 0, and that stays finite where others are added to it.
double very_low(Dtype dtype) {
  switch (dtype) {
    case Dtype::f16:
      return -3e4;
    case Dtype::f64:
      return std::numeric_limits<double>::lowest() / 4;
    default:
      return std::numeric_limits<float>::lowest() / 4;
  }
}

// sum_k>=i g_k exp(x_i - y_k), positive and negative gradients apart, so that sums stay logarithms. Those
// of the other sign have no logarithm, whose derivative would be infinite.
Tensor logcumsumexp_vjp(const Tensor& g, const Tensor& x, const Tensor& y, int64_t dim) {
  if (x.dim() == 0) return g;
  auto part = [&](const Tensor& size) {
    Tensor others = size.le(0);
    Tensor logs = size.masked_fill(others, 1).log().masked_fill(others, very_low(g.dtype())).sub(y);
    return logs.flip({dim}).logcumsumexp(dim).flip({dim}).add(x).exp();
  };
  return part(g).sub(part(g.neg()));
}

}  // namespace

static constexpr OpDef reduce_scan_rows[] = {
    {.schema = "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
     .variants = in_place,
     .core = true,
     .meta = fn<scan_meta>,
     .eager = fn<scan_kernel<false>>,
     .complex = fn<complex_cumsum>,
     .vjp = {{"self", "grad, dim",
              [](const Tensor& g, int64_t dim) { return reverse_cumsum(g, dim); }}},
     .linear = "self"},
    {.schema = "cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
     .variants = in_place,
     .meta = fn<scan_meta>,
     .eager = fn<scan_kernel<true>>,
     .complex = fn<complex_cumprod>,
     .vjp = {{"self", "grad, self, result, dim", fn<cumprod_vjp>}}},
    {.schema = "cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)",
     .meta = fn<extreme_scan_meta>,
     .eager = fn<extreme_scan_kernel<true>>,
     .vjp = {{"self", "grad, self.sizes, dim, result1", fn<cumulative_extremum_vjp>}}},
    {.schema = "cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)",
     .meta = fn<extreme_scan_meta>,
     .eager = fn<extreme_scan_kernel<false>>,
     .vjp = {{"self", "grad, self.sizes, dim, result1", fn<cumulative_extremum_vjp>}}},
    {.schema = "logcumsumexp(Tensor self, int dim) -> Tensor",
     .meta =
         [](const Tensor& self, int64_t dim) {
           wrap_dim(dim, self.dim());
           require_floating("logcumsumexp", self.dtype());
           return contiguous_meta(self.sizes(), self.dtype(), self.device());
         },
     .eager = fn<logcumsumexp_kernel>,
     .vjp = {{"self", "grad, self, result, dim", fn<logcumsumexp_vjp>}}},
    {.schema = "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) "
               "-> Tensor",
     .decomp = fn<differences>},
};

extern constinit const OpFamily op_family_reduce_scan{reduce_scan_rows};

}  // namespace tenon::ops
