// Sums and what is counted: sum, mean, prod, any, all, count_nonzero.
#include "core/kernels/rows/sum.h"
#include "ops/forms/complex_forms.h"
#include "ops/op.h"
#include "ops/reduce/reduce_loop.h"
#include "ops/symbols_match.h"
#include "ops/vjp_rules.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

#include <cmath>

namespace tenon::ops {

namespace {

using Type = std::optional<Dtype>;

// Integers wrap, so their sums run unsigned.
template <class A>
A plus(A a, A b) {
  if constexpr (std::is_integral_v<A>)
    return static_cast<A>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}
template <class A>
A times(A a, A b) {
  if constexpr (std::is_integral_v<A>)
    return static_cast<A>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return a * b;
}

template <class T, class Out>
struct Sum {
  using State = SumOf<T>;
  Out* out;
  State start() const { return 0; }
  void step(State& s, T x, int64_t) const { s = plus(s, static_cast<State>(x)); }
  void fold(State& s, const T* x, int64_t n, int64_t index) const {
    if constexpr (!is_float_type<T>) {
      s = fold_integers(ScalarCode::add, s, x, n, plus<State>);
    } else {
      for (int64_t i = 0; i < n; ++i) step(s, x[i], index + i);
    }
  }
  State join(State a, State b) const { return plus(a, b); }
  void store(int64_t at, State s, int64_t) const { out[at] = static_cast<Out>(s); }
};

template <class T>
struct Mean : Sum<T, T> {
  void store(int64_t at, double s, int64_t n) const {
    this->out[at] = static_cast<T>(s / static_cast<double>(n));
  }
};

template <class T, class Out>
struct Product {
  using State = SumOf<T>;
  Out* out;
  State start() const { return 1; }
  void step(State& s, T x, int64_t) const { s = times(s, static_cast<State>(x)); }
  void fold(State& s, const T* x, int64_t n, int64_t) const {
    if constexpr (std::is_floating_point_v<T>) {
      s *= kernels::row_level<T>().fold_wide(kernels::WideFold::product, x, n);
    } else if constexpr (!is_float_type<T>) {
      s = fold_integers(ScalarCode::mul, s, x, n, times<State>);
    } else {
      auto step = [](State& part, T value) { part = times(part, static_cast<State>(value)); };
      s = times(s, fold_in_parts(State(1), x, n, step, times<State>));
    }
  }
  State join(State a, State b) const { return times(a, b); }
  void store(int64_t at, State s, int64_t) const { out[at] = static_cast<Out>(s); }
};

// ---- sums

TensorMeta sum_meta_of(const Tensor& self, uint64_t mask, bool keepdim, Type dtype) {
  return reduced_meta(self, mask, keepdim, sum_dtype(self, dtype));
}

// Floating sums over neighbouring dimensions of a row-major tensor are those of the vector kernel;
// each is divided by `divisor`. False where it does not serve.
bool sum_block(Tensor& out, const Tensor& in, uint64_t mask, double divisor) {
  std::optional<FoldedBlock> block = folded_block(in, mask);
  if (!block || !is_floating(in.dtype()) || in.dtype() != out.dtype()) return false;
  dispatch_floating(in.dtype(), "sum", [&]<class T>() {
    using C = kernels::Compute<T>;
    int64_t n = block->outer * block->inner;
    std::vector<C> wide(std::is_same_v<C, T> ? 0 : static_cast<size_t>(n));
    C* sums;
    if constexpr (std::is_same_v<C, T>)
      sums = data_of<T>(out);
    else
      sums = wide.data();
    kernels::sum(data_of<T>(in), sums, block->outer, block->n, block->inner);
    if (std::is_same_v<C, T> && divisor == 1) return;
    T* to = data_of<T>(out);
    for (int64_t i = 0; i < n; ++i)
      to[i] = static_cast<T>(static_cast<C>(static_cast<double>(sums[i]) / divisor));
  });
  return true;
}

/// A tensor whose dimensions are in the order in which they lie in memory, and the mask for it.
struct InOrder {
  Tensor in;
  uint64_t mask;
};

// Such as a transposed one; nothing where that is not dense, or what is kept would change its order.
std::optional<InOrder> in_order(const Tensor& in, uint64_t mask) {
  std::vector<int64_t> order;
  for (int64_t d = 0; d < in.dim(); ++d) order.push_back(d);
  auto step = [&](int64_t d) { return in.stride(d).guard_int(); };
  std::ranges::stable_sort(order, std::greater<>(), step);
  uint64_t turned = 0;
  int64_t last_kept = -1;
  for (size_t k = 0; k < order.size(); ++k) {
    bool is_folded = mask >> order[k] & 1;
    if (is_folded) turned |= uint64_t{1} << k;
    if (is_folded || in.size(order[k]).guard_int() == 1) continue;
    if (order[k] < last_kept) return std::nullopt;
    last_kept = order[k];
  }
  Tensor dense = permute(in, order);
  return dense.is_contiguous() ? std::optional(InOrder{dense, turned}) : std::nullopt;
}

// The same over dimensions that are no neighbours, as of a bias: one group of them after another.
// What lies otherwise in memory, as an expanded gradient, is copied unless that takes much memory.
bool sum_blocks(Tensor& out, const Tensor& in, uint64_t mask, double divisor) {
  constexpr int64_t much = 1 << 24;
  if (sum_block(out, in, mask, divisor)) return true;
  bool is_wide = in.dtype() == Dtype::f32 || in.dtype() == Dtype::f64;
  if (!is_wide || in.dtype() != out.dtype()) return false;
  if (!in.is_contiguous())
    if (std::optional<InOrder> turned = in_order(in, mask))
      return sum_blocks(out, turned->in, turned->mask, divisor);
  if (!in.is_contiguous())
    return numel_of(in) <= much && sum_blocks(out, contiguous_of(in), mask, divisor);
  uint64_t last = last_neighbours(mask, in.dim());
  Tensor sums = make_tensor(reduced_meta(in, last, true, in.dtype()));
  return sum_block(sums, in, last, 1) && sum_blocks(out, sums, mask & ~last, divisor);
}

// Integers are read as they are and summed in i64; else the input is converted to the result's
// dtype.
template <template <class, class> class Op>
void fold_numbers(Tensor& out, const Tensor& self, uint64_t mask, const char* name) {
  bool as_is = out.dtype() == Dtype::i64 && !is_floating(self.dtype());
  Tensor in = as_is || self.dtype() == out.dtype() ? self : converted(self, out.dtype());
  dispatch_dtype(in.dtype(), name, [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, int64_t>)
      if (out.dtype() == Dtype::i64)
        return reduce<T>(in, out, mask, Op<T, int64_t>{data_of<int64_t>(out)});
    reduce<T>(in, out, mask, Op<T, T>{data_of<T>(out)});
  });
}

void sum_into(Tensor& out, const Tensor& self, uint64_t mask) {
  Tensor in = self.dtype() == out.dtype() || !is_floating(out.dtype())
                  ? self
                  : converted(self, out.dtype());
  if (!sum_blocks(out, in, mask, 1)) fold_numbers<Sum>(out, in, mask, "sum");
}

constexpr auto sum_all_kernel = [](Tensor& out, const Tensor& self, Type) {
  sum_into(out, self, all_dims);
};
constexpr auto sum_kernel = [](Tensor& out, const Tensor& self, OptIntList dims, bool, Type) {
  sum_into(out, self, dims_mask(dims, self.dim()));
};
constexpr auto sum_meta = [](const Tensor& self, OptIntList dims, bool keepdim, Type dtype) {
  return sum_meta_of(self, dims_mask(dims, self.dim()), keepdim, dtype);
};

void mean_kernel(Tensor& out, const Tensor& self, uint64_t mask) {
  Tensor in = self.dtype() == out.dtype() ? self : converted(self, out.dtype());
  int64_t n = numel_of(out) ? numel_of(in) / numel_of(out) : 0;
  if (sum_blocks(out, in, mask, static_cast<double>(n))) return;
  dispatch_floating(in.dtype(), "mean",
                    [&]<class T>() { reduce<T>(in, out, mask, Mean<T>{{data_of<T>(out)}}); });
}

bool shrinks_to_one(SymInt from, SymInt to) {
  return !symbols_match(from, to) && is_one(to) && !is_one(from);
}

Tensor summed_to_size(const Tensor& self, SymIntList size) {
  if (size.empty()) return sum(self);
  int64_t missing = self.dim() - static_cast<int64_t>(size.size());
  require(missing >= 0, "sum_to_size: shape {} has more dimensions than {}", size, self.sizes());
  std::vector<int64_t> folded;
  bool changes = missing > 0;
  for (int64_t d = 0; d < self.dim(); ++d) {
    bool sums = d < missing || shrinks_to_one(self.size(d), size[static_cast<size_t>(d - missing)]);
    require(sums || sizes_match(size[static_cast<size_t>(d - missing)], self.size(d)),
            "sum_to_size: shape {} does not expand to {}", size, self.sizes());
    if (sums) folded.push_back(d);
  }
  if (folded.empty()) return self;
  Tensor out = sum(self, OptIntList(folded), true);
  return changes ? view(out, size) : out;
}

// ---- truth

template <class T>
bool truth(T x) {
  if constexpr (is_half_type<T>)
    return static_cast<float>(x) != 0;
  else
    return x != T(0);
}

template <class T, class Out>
struct Any {
  using State = uint8_t;  // not bool: arrays of states are written in place
  Out* out;
  State start() const { return 0; }
  void step(State& s, T x, int64_t) const { s |= truth(x); }
  State join(State a, State b) const { return a | b; }
  void store(int64_t at, State s, int64_t) const { out[at] = static_cast<Out>(s); }
};

template <class T, class Out>
struct All {
  using State = uint8_t;
  Out* out;
  State start() const { return 1; }
  void step(State& s, T x, int64_t) const { s &= truth(x); }
  State join(State a, State b) const { return a & b; }
  void store(int64_t at, State s, int64_t) const { out[at] = static_cast<Out>(s); }
};

template <class T, class Out>
struct CountNonzero {
  using State = int64_t;
  Out* out;
  State start() const { return 0; }
  void step(State& s, T x, int64_t) const { s += truth(x); }
  State join(State a, State b) const { return a + b; }
  void store(int64_t at, State s, int64_t) const { out[at] = static_cast<Out>(s); }
};

// u8 stays u8, a rule from before bool existed.
TensorMeta truth_meta(const Tensor& self, uint64_t mask, bool keepdim) {
  return reduced_meta(self, mask, keepdim, self.dtype() == Dtype::u8 ? Dtype::u8 : Dtype::bool_);
}

template <template <class, class> class Op, class Out>
void fold_truth(Tensor& out, const Tensor& self, uint64_t mask, const char* name) {
  if (is_complex(self.dtype())) return fold_truth<Op, Out>(out, ne(self, 0), mask, name);
  dispatch_dtype(self.dtype(), name,
                 [&]<class T>() { reduce<T>(self, out, mask, Op<T, Out>{data_of<Out>(out)}); });
}

// No dims given means all; an empty list means none.
uint64_t truth_mask(const Tensor& self, OptIntList dims) {
  return dims && dims->empty() ? 0 : dims_mask(dims, self.dim());
}

template <template <class, class> class Op>
constexpr auto truth_all =
    [](Tensor& out, const Tensor& self) { fold_truth<Op, bool>(out, self, all_dims, "any, all"); };
template <template <class, class> class Op>
constexpr auto truth_dim = [](Tensor& out, const Tensor& self, int64_t dim, bool) {
  fold_truth<Op, bool>(out, self, mask_of_dim(self, dim), "any, all");
};
template <template <class, class> class Op>
constexpr auto truth_dims = [](Tensor& out, const Tensor& self, OptIntList dims, bool) {
  fold_truth<Op, bool>(out, self, truth_mask(self, dims), "any, all");
};
constexpr auto truth_all_meta = [](const Tensor& self) {
  return truth_meta(self, all_dims, false);
};
constexpr auto truth_dim_meta = [](const Tensor& self, int64_t dim, bool keepdim) {
  return truth_meta(self, mask_of_dim(self, dim), keepdim);
};
constexpr auto truth_dims_meta = [](const Tensor& self, OptIntList dims, bool keepdim) {
  return truth_meta(self, truth_mask(self, dims), keepdim);
};

constexpr OpTags reduction = OpTags::reduction;

Tensor is_zero(const Tensor& self) {
  return is_complex(self.dtype()) ? eq(self, 0) : logical_not(self);
}

Tensor as_truth(const Tensor& value, const Tensor& self) {
  return self.dtype() == Dtype::u8 ? to(value, Dtype::u8) : value;
}

// What exported programs assert about data.
const Tensor& bools(const Tensor& self, const char* name) {
  require(self.dtype() == Dtype::bool_, "{} expects bool, found {}; compare first", name,
          self.dtype());
  return self;
}

}  // namespace

static constexpr OpDef reduce_sum_rows[] = {
    {.schema = "sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
     .tags = reduction,
     .meta = [](const Tensor& self,
                Type dtype) { return sum_meta_of(self, all_dims, false, dtype); },
     .eager = sum_all_kernel,
     .decomp = [](const Tensor& self,
                  std::optional<Dtype> dtype) { return sum(self, std::nullopt, false, dtype); },
     .complex = fn<complex_sum>,
     .vjp = {{"self", "grad, self.sizes",
              [](const Tensor& g, SymIntList sizes) { return g.expand(sizes); }}},
     .linear = "self"},
    {.schema = "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, "
               "ScalarType? dtype=None) -> Tensor",
     .tags = reduction,
     .core = true,
     .meta = sum_meta,
     .eager = sum_kernel,
     .complex = fn<complex_sum_dims>,
     .vjp = {{"self", "grad, self.sizes, dim, keepdim",
              [](const Tensor& g, SymIntList sizes, OptIntList dim, bool keepdim) {
                return unreduced(g, sizes, dim, keepdim);
              }}},
     .linear = "self"},
    {.schema = "mean(Tensor self, *, ScalarType? dtype=None) -> Tensor",
     .tags = reduction,
     .core = true,
     .meta = [](const Tensor& self, Type dtype) { return mean_meta(self, all_dims, false, dtype); },
     .eager = [](Tensor& out, const Tensor& self, Type) { mean_kernel(out, self, all_dims); },
     .complex = fn<complex_mean>,
     .vjp = {{"self", "grad, self.sizes",
              [](const Tensor& g, SymIntList sizes) {
                return g.expand(sizes).div(Number(n_reduced(sizes, {})));
              }}},
     .linear = "self"},
    {.schema = "mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) "
               "-> Tensor",
     .tags = reduction,
     .core = true,
     .meta =
         [](const Tensor& self, OptIntList dims, bool keepdim, Type dtype) {
           return mean_meta(self, dims_mask(dims, self.dim()), keepdim, dtype);
         },
     .eager = [](Tensor& out, const Tensor& self, OptIntList dims, bool,
                 Type) { mean_kernel(out, self, dims_mask(dims, self.dim())); },
     .complex = fn<complex_mean_dims>,
     .vjp = {{"self", "grad, self.sizes, dim, keepdim",
              [](const Tensor& g, SymIntList sizes, OptIntList dim, bool keepdim) {
                return unreduced(g, sizes, dim, keepdim).div(Number(n_reduced(sizes, dim)));
              }}},
     .linear = "self"},
    {.schema = "prod(Tensor self, *, ScalarType? dtype=None) -> Tensor",
     .tags = reduction,
     .core = true,
     .meta = [](const Tensor& self,
                Type dtype) { return sum_meta_of(self, all_dims, false, dtype); },
     .eager = [](Tensor& out, const Tensor& self,
                 Type) { fold_numbers<Product>(out, self, all_dims, "prod"); },
     .complex = fn<complex_prod>,
     .vjp = {{"self", "grad, self",
              [](const Tensor& g, const Tensor& x) {
                Tensor flat = x.reshape({-1});
                return g.to(x.dtype()).mul(product_of_others(flat, 0)).reshape(x.sizes());
              }}},
     .autocast = Autocast::fp32},
    {.schema = "prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) "
               "-> Tensor",
     .tags = reduction,
     .core = true,
     .meta = [](const Tensor& self, int64_t dim, bool keepdim,
                Type dtype) { return sum_meta_of(self, mask_of_dim(self, dim), keepdim, dtype); },
     .eager = [](Tensor& out, const Tensor& self, int64_t dim, bool,
                 Type) { fold_numbers<Product>(out, self, mask_of_dim(self, dim), "prod"); },
     .complex = fn<complex_prod_dim>,
     .vjp = {{"self", "grad, self, dim, keepdim",
              [](const Tensor& g, const Tensor& x, int64_t dim, bool keepdim) {
                return unreduced(g.to(x.dtype()), x.sizes(), dim, keepdim)
                    .mul(product_of_others(x, dim));
              }}},
     .autocast = Autocast::fp32},
    {.schema = "sum_to_size(Tensor self, SymInt[] size) -> Tensor",
     .tags = OpTags::maybe_alias,
     .decomp = fn<summed_to_size>,
     .linear = "self"},
    {.schema = "trace(Tensor self) -> Tensor",
     .tags = reduction,
     .decomp = [](const Tensor& self) { return sum(diagonal(self)); },
     .autocast = Autocast::fp32},
    {.schema = "any(Tensor self) -> Tensor",
     .tags = reduction,
     .core = true,
     .meta = truth_all_meta,
     .eager = truth_all<Any>,
     .vjp = nondiff},
    {.schema = "any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
     .tags = reduction,
     .core = true,
     .meta = truth_dim_meta,
     .eager = truth_dim<Any>,
     .vjp = nondiff},
    {.schema = "any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
     .tags = reduction,
     .core = true,
     .meta = truth_dims_meta,
     .eager = truth_dims<Any>,
     .vjp = nondiff},
    {.schema = "all(Tensor self) -> Tensor",
     .tags = reduction,
     .meta = truth_all_meta,
     .eager = truth_all<All>,
     .decomp = [](const Tensor& self) { return as_truth(logical_not(any(is_zero(self))), self); },
     .vjp = nondiff},
    {.schema = "all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
     .tags = reduction,
     .meta = truth_dim_meta,
     .eager = truth_dim<All>,
     .decomp =
         [](const Tensor& self, int64_t dim, bool keepdim) {
           return as_truth(logical_not(any(is_zero(self), dim, keepdim)), self);
         },
     .vjp = nondiff},
    {.schema = "all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
     .tags = reduction,
     .meta = truth_dims_meta,
     .eager = truth_dims<All>,
     .decomp =
         [](const Tensor& self, OptIntList dim, bool keepdim) {
           return as_truth(logical_not(any(is_zero(self), dim, keepdim)), self);
         },
     .vjp = nondiff},
    {.schema = "_is_all_true(Tensor self) -> Tensor",
     .tags = reduction,
     .decomp =
         [](const Tensor& self) {
           return logical_not(any(logical_not(bools(self, "_is_all_true"))));
         },
     .vjp = nondiff},
    {.schema = "_is_any_true(Tensor self) -> Tensor",
     .tags = reduction,
     .decomp = [](const Tensor& self) { return any(bools(self, "_is_any_true")); },
     .vjp = nondiff},
    {.schema = "count_nonzero(Tensor self, int? dim=None) -> Tensor",
     .tags = reduction,
     .meta =
         [](const Tensor& self, std::optional<int64_t> dim) {
           return reduced_meta(self, dim ? mask_of_dim(self, *dim) : all_dims, false, Dtype::i64);
         },
     .eager =
         [](Tensor& out, const Tensor& self, std::optional<int64_t> dim) {
           fold_truth<CountNonzero, int64_t>(out, self, dim ? mask_of_dim(self, *dim) : all_dims,
                                             "count_nonzero");
         },
     .decomp =
         [](const Tensor& self, std::optional<int64_t> dim) {
           return dim ? sum(ne(self, 0), {*dim}) : sum(ne(self, 0));
         },
     .vjp = nondiff},
    {.schema = "count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor",
     .tags = reduction,
     .meta =
         [](const Tensor& self, IntList dims) {
           return reduced_meta(self, dims_mask(OptIntList(dims), self.dim()), false, Dtype::i64);
         },
     .eager =
         [](Tensor& out, const Tensor& self, IntList dims) {
           fold_truth<CountNonzero, int64_t>(out, self, dims_mask(OptIntList(dims), self.dim()),
                                             "count_nonzero");
         },
     .decomp = [](const Tensor& self, IntList dim) { return sum(ne(self, 0), dim); },
     .vjp = nondiff},
};

extern constinit const OpFamily op_family_reduce_sum{reduce_sum_rows};

}  // namespace tenon::ops
