// Quantiles, with and without NaN.
//
// Method: each row is sorted (NaN last). The rank q (n - 1) lies between two elements, of which the
//   rule of interpolation makes the result. quantile gives NaN for rows with NaN; nanquantile
//   counts only the other elements.
#include "core/threads/thread_pool.h"
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include <tenon/ops/create.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon::ops {

namespace {

enum class Between { linear, lower, higher, midpoint, nearest };

Between rule_of(std::string_view name) {
  constexpr std::pair<std::string_view, Between> names[] = {{"linear", Between::linear},
                                                            {"lower", Between::lower},
                                                            {"higher", Between::higher},
                                                            {"midpoint", Between::midpoint},
                                                            {"nearest", Between::nearest}};
  for (auto [text, rule] : names)
    if (text == name) return rule;
  fail("quantile: interpolation must be linear, lower, higher, midpoint or nearest, found '{}'",
       name);
}

using OptDim = std::optional<int64_t>;

// Results lie q-outermost in the shape but q-innermost in memory where q is a vector, as ATen's.
TensorMeta quantile_meta(const Tensor& self, const Tensor& q, OptDim dim, bool keepdim,
                         std::string_view interpolation) {
  rule_of(interpolation);
  require(self.dtype() == Dtype::f32 || self.dtype() == Dtype::f64,
          "quantile: f32 or f64 is expected, found {}; cast the input", self.dtype());
  require(q.dim() <= 1 && q.dtype() == self.dtype(),
          "quantile: q must be a number or a vector of dtype {}, found {} of shape {}",
          self.dtype(), q.dtype(), q.sizes());
  SymInt length = dim && self.dim() > 0 ? self.size(*dim) : self.numel();
  require(expect_true(length > 0), "quantile: the input must not be empty, found shape {}",
          self.sizes());
  uint64_t mask = dim ? uint64_t{1} << wrap_dim(*dim, self.dim()) : ~uint64_t{0};
  Dims kept = reduced_sizes(self.sizes(), mask, keepdim);
  if (q.dim() == 0) return contiguous_meta(list_of(kept), self.dtype(), self.device());
  Dims sizes{q.size(0)}, strides{SymInt(1)}, inner = contiguous_strides(list_of(kept));
  for (size_t d = 0; d < kept.size(); ++d) {
    sizes.push_back(kept[d]);
    strides.push_back(inner[d] * q.size(0));
  }
  return {self.dtype(), self.device(), std::move(sizes), std::move(strides)};
}

template <class T>
T between(const T* sorted, T rank, Between rule) {
  if (rule == Between::nearest) rank = std::nearbyint(rank);
  if (rule == Between::higher) rank = std::ceil(rank);
  auto low = static_cast<int64_t>(std::floor(rank)), high = static_cast<int64_t>(std::ceil(rank));
  T part = rule == Between::midpoint ? T(0.5) : rank - static_cast<T>(low);
  if (rule == Between::lower || low == high) return sorted[low];
  T from = sorted[low], to = sorted[high];
  // From the nearer end, so that equal neighbours give themselves.
  return part < T(0.5) ? from + part * (to - from) : to - (to - from) * (1 - part);
}

template <class T>
void quantiles_of(T* out, int64_t step, std::vector<T>& row, const T* q, int64_t n_q, Between rule,
                  bool ignore_nan) {
  auto numbers = std::partition(row.begin(), row.end(), [](T x) { return x == x; });
  auto n = static_cast<int64_t>(numbers - row.begin());
  std::sort(row.begin(), numbers);
  bool spoilt = n == 0 || (!ignore_nan && numbers != row.end());
  for (int64_t i = 0; i < n_q; ++i)
    out[i * step] = spoilt ? std::numeric_limits<T>::quiet_NaN()
                           : between(row.data(), q[i] * static_cast<T>(n - 1), rule);
}

template <bool ignore_nan>
void quantile_kernel(Tensor& out, const Tensor& self, const Tensor& q, OptDim dim, bool,
                     std::string_view interpolation) {
  Tensor rows = contiguous_of(dim && self.dim() > 0 ? movedim(self, *dim, -1) : self);
  int64_t length = dim && self.dim() > 0 ? sizes_of(rows).back() : numel_of(rows);
  Tensor shares = contiguous_of(q);
  int64_t n_q = numel_of(shares), count = numel_of(rows) / length;
  Between rule = rule_of(interpolation);
  auto run = [&]<class T>() {
    for (int64_t i = 0; i < n_q; ++i)
      require(data_of<T>(shares)[i] >= 0 && data_of<T>(shares)[i] <= 1,
              "quantile: q must lie between 0 and 1, found {}", data_of<T>(shares)[i]);
    parallel_for(0, count, std::max<int64_t>(1, 4096 / length), [&](int64_t lo, int64_t hi) {
      for (int64_t r = lo; r < hi; ++r) {
        const T* from = data_of<T>(rows) + r * length;
        std::vector<T> row(from, from + length);
        quantiles_of(data_of<T>(out) + r * n_q, 1, row, data_of<T>(shares), n_q, rule, ignore_nan);
      }
    });
  };
  if (self.dtype() == Dtype::f64)
    run.template operator()<double>();
  else
    run.template operator()<float>();
}

// The ranks of the wanted shares among the sorted rows, then the rule between neighbours.
template <bool ignore_nan>
Tensor quantile_decomp(const Tensor& self, const Tensor& q, OptDim dim, bool keepdim,
                       std::string_view interpolation) {
  bool along = dim && self.dim() > 0;
  Tensor rows = along ? movedim(self, *dim, -1) : self.reshape({-1});
  Tensor sorted = std::get<0>(rows.sort(-1)), nan = rows.detach().isnan();
  Between rule = rule_of(interpolation);
  Tensor shares = (rule == Between::linear ? q : q.detach()).reshape({-1});
  Tensor rank;
  if (ignore_nan) {
    Tensor count = nan.logical_not().sum({-1}, true).to(self.dtype());
    rank = count.sub(1).clamp_min(0).mul(shares);
  } else {
    Tensor last = scalar_tensor(Number(rows.size(-1) - 1), self.dtype());
    rank = where(nan.any(-1, true), last, shares.mul(last));
  }
  Tensor low = rule == Between::nearest  ? rank.round()
               : rule == Between::higher ? rank.ceil()
                                         : rank.floor();
  Tensor result = sorted.gather(-1, low.to(Dtype::i64));
  if (rule == Between::linear || rule == Between::midpoint) {
    Tensor above = sorted.gather(-1, rank.ceil().to(Dtype::i64));
    Tensor part = rule == Between::linear ? rank.sub(low) : rank.sub(low).ceil().mul(0.5);
    // Where no part of it counts, `above` is the same element, and infinite ones differ by NaN.
    result = where(part.eq(0), result, result.lerp(above, part));
  }
  if (keepdim && along)
    result = result.unsqueeze(*dim < 0 ? *dim + self.dim() : *dim);
  else if (keepdim)
    for (int64_t d = 0; d < self.dim(); ++d) result = result.unsqueeze(0);
  return q.dim() == 0 ? result.squeeze(-1) : movedim(result, -1, 0);
}

template <bool ignore_nan>
constexpr auto by_number =
    [](const Tensor& self, double q, OptDim dim, bool keepdim, std::string_view interpolation) {
      require(q >= 0 && q <= 1, "quantile: q must lie between 0 and 1, found {}", q);
      Tensor share = scalar_tensor(q, self.dtype(), std::nullopt, self.device());
      return ignore_nan ? nanquantile(self, share, dim, keepdim, interpolation)
                        : quantile(self, share, dim, keepdim, interpolation);
    };

}  // namespace

static constexpr OpDef reduce_quantile_rows[] = {
    {.schema = "quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str "
               "interpolation=\"linear\") -> Tensor",
     .tags = OpTags::reduction,
     .meta = fn<quantile_meta>,
     .eager = fn<quantile_kernel<false>>,
     .decomp = fn<quantile_decomp<false>>,
     .autocast = Autocast::fp32},
    {.schema = "quantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str "
               "interpolation=\"linear\") -> Tensor",
     .decomp = by_number<false>,
     .autocast = Autocast::fp32},
    {.schema = "nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str "
               "interpolation=\"linear\") -> Tensor",
     .tags = OpTags::reduction,
     .meta = fn<quantile_meta>,
     .eager = fn<quantile_kernel<true>>,
     .decomp = fn<quantile_decomp<true>>,
     .autocast = Autocast::fp32},
    {.schema = "nanquantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str "
               "interpolation=\"linear\") -> Tensor",
     .decomp = by_number<true>,
     .autocast = Autocast::fp32},
};

extern constinit const OpFamily op_family_reduce_quantile{reduce_quantile_rows};

}  // namespace tenon::ops
