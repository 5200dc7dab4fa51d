// Sums and means of what is a number: nansum, nanmean.
#include "ops/op.h"
#include "ops/reduce/reduce_loop.h"
#include "ops/shape_check.h"
#include "ops/vjp_rules.h"

#include <tenon/ops/create.h>
#include <tenon/ops/index.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

using Type = std::optional<Dtype>;

template <class T>
struct NanSum {
  using State = SumOf<T>;
  T* out;
  State start() const { return 0; }
  void step(State& s, T x, int64_t) const {
    if (!is_nan(x)) s = join(s, static_cast<State>(x));
  }
  void fold(State& s, const T* x, int64_t n, int64_t) const {
    auto add = [this](State& part, T value) {
      part = join(part, is_nan(value) ? State(0) : static_cast<State>(value));
    };
    s = join(s,
             fold_in_parts(State(0), x, n, add, [this](State a, State b) { return join(a, b); }));
  }
  // Integers wrap, so their sums run unsigned.
  State join(State a, State b) const {
    if constexpr (std::is_integral_v<State>)
      return static_cast<State>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
      return a + b;
  }
  void store(int64_t at, State s, int64_t) const { out[at] = static_cast<T>(s); }
};

template <class T>
struct NanMean {
  struct State {
    double sum = 0;
    int64_t n = 0;
  };
  T* out;
  State start() const { return {}; }
  void step(State& s, T x, int64_t) const {
    if (is_nan(x)) return;
    s.sum += static_cast<double>(x);
    ++s.n;
  }
  State join(State a, State b) const { return {a.sum + b.sum, a.n + b.n}; }
  void store(int64_t at, State s, int64_t) const {
    out[at] = static_cast<T>(s.sum / static_cast<double>(s.n));
  }
};

constexpr auto nansum_kernel = [](Tensor& out, const Tensor& self, OptIntList dims, bool, Type) {
  // Among integers nothing would tell NaN any more.
  bool hides_nan = is_floating(self.dtype()) && is_integral(out.dtype());
  Tensor numbers = hides_nan ? masked_fill(self, isnan(self), 0) : self;
  Tensor in = self.dtype() == out.dtype() ? self : converted(numbers, out.dtype());
  dispatch_dtype(in.dtype(), "nansum", [&]<class T>() {
    reduce<T>(in, out, dims_mask(dims, self.dim()), NanSum<T>{data_of<T>(out)});
  });
};

constexpr auto nanmean_kernel = [](Tensor& out, const Tensor& self, OptIntList dims, bool, Type) {
  Tensor in = self.dtype() == out.dtype() ? self : converted(self, out.dtype());
  dispatch_floating(in.dtype(), "nanmean", [&]<class T>() {
    reduce<T>(in, out, dims_mask(dims, self.dim()), NanMean<T>{data_of<T>(out)});
  });
};

}  // namespace

static constexpr OpDef reduce_nan_sums_rows[] = {
    {.schema = "nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? "
               "dtype=None) -> Tensor",
     .tags = OpTags::reduction,
     .meta =
         [](const Tensor& self, OptIntList dims, bool keepdim, Type dtype) {
           require_real("nansum", self.dtype());
           return reduced_meta(self, dims_mask(dims, self.dim()), keepdim, sum_dtype(self, dtype));
         },
     .eager = nansum_kernel,
     .decomp =
         [](const Tensor& self, OptIntList dim, bool keepdim, std::optional<Dtype> dtype) {
           return sum(where(isnan(self), full({}, 0, self.dtype()), self), dim, keepdim, dtype);
         },
     .vjp = {{"self", "grad, self, dim, keepdim",
              [](const Tensor& g, const Tensor& x, OptIntList dim, bool keepdim) {
                return unreduced(g.to(x.dtype()), x.sizes(), dim, keepdim)
                    .mul(x.isnan().logical_not());
              }}}},
    {.schema = "nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? "
               "dtype=None) -> Tensor",
     .tags = OpTags::reduction,
     .meta =
         [](const Tensor& self, OptIntList dims, bool keepdim, Type dtype) {
           return mean_meta(self, dims_mask(dims, self.dim()), keepdim, dtype);
         },
     .eager = nanmean_kernel,
     .decomp =
         [](const Tensor& self, OptIntList dim, bool keepdim, std::optional<Dtype> dtype) {
           return div(nansum(self, dim, keepdim, dtype),
                      sum(logical_not(isnan(self)), dim, keepdim));
         },
     .vjp = {{"self", "grad, self, dim, keepdim",
              [](const Tensor& g, const Tensor& x, OptIntList dim, bool keepdim) {
                Tensor there = x.isnan().logical_not();
                Tensor count = dim ? there.sum(*dim, true) : there.sum();
                return unreduced(g.to(x.dtype()), x.sizes(), dim, keepdim).div(count).mul(there);
              }}}},
};

extern constinit const OpFamily op_family_reduce_nan_sums{reduce_nan_sums_rows};

}  // namespace tenon::ops
