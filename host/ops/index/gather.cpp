// Element-wise indexing along a dimension: gather, scatter and their reductions, take and put.
#include "ops/index/advanced_index.h"
#include "ops/index/fold_names.h"
#include "ops/index/indexed_walk.h"
#include "ops/op.h"
#include "ops/shape_check.h"
#include "ops/vjp_rules.h"

#include <tenon/ops/index.h>
#include <tenon/ops/view.h>

#include <cstring>
#include <limits>

namespace tenon::ops {

Fold fold_named(std::string_view op, std::string_view name) {
  if (name == "sum" || name == "add") return Fold::sum;
  if (name == "prod" || name == "multiply") return Fold::prod;
  if (name == "mean") return Fold::mean;
  if (name == "amax") return Fold::amax;
  if (name == "amin") return Fold::amin;
  fail("{}: reduce must be sum, prod, mean, amax or amin, found '{}'", op, name);
}

namespace {

// Whether `t` has an element at each position of `index`. A tensor without dimensions counts as a
// vector of one element.
bool covers(const Tensor& t, const Tensor& index) {
  if (t.dim() == 0 || index.dim() == 0)
    return std::max(t.dim(), index.dim()) <= 1 && expect_true(t.numel() >= index.numel());
  bool fits = t.dim() == index.dim();
  for (size_t d = 0; fits && d < index.sizes().size(); ++d)
    fits = expect_true(t.sizes()[d] >= index.sizes()[d]);
  return fits;
}

void check_index_shape(const char* op, const Tensor& self, int64_t dim, const Tensor& index) {
  int64_t at = wrap_dim(dim, self.dim());
  if (is_surely_empty(index)) return;
  require_index_dtype(op, index);
  require(std::max<int64_t>(self.dim(), 1) == std::max<int64_t>(index.dim(), 1),
          "{}: self of shape {} and index of shape {} must have the same number of dimensions", op,
          self.sizes(), index.sizes());
  for (int64_t d = 0; d < std::min(self.dim(), index.dim()); ++d)
    require(d == at || expect_true(index.size(d) <= self.size(d)),
            "{}: index of shape {} is larger than self of shape {} beside dimension {}", op,
            index.sizes(), self.sizes(), at);
}

TensorMeta gather_meta(const Tensor& self, int64_t dim, const Tensor& index, bool) {
  check_index_shape("gather", self, dim, index);
  return contiguous_meta(index.sizes(), self.dtype(), self.device());
}

void gather_kernel(Tensor& out, const Tensor& self, int64_t dim, const Tensor& index, bool) {
  if (numel_of(index) == 0) return;
  dispatch_itemsize(self.dtype(), [&]<class T>() {
    const T* from = data_of<T>(self);
    T* to = data_of<T>(out);
    for_each_indexed("gather", self, dim, index, &out,
                     [from, to](int64_t at, int64_t target) { to[target] = from[at]; });
  });
}

Tensor taken_along(const Tensor& self, const Tensor& indices, std::optional<int64_t> dim) {
  if (!dim) return gather(reshape(self, {-1}), 0, reshape(indices, {-1}));
  int64_t at = wrap_dim(*dim, self.dim());
  require(self.dim() == indices.dim(),
          "take_along_dim: shapes {} and {} have different numbers of dimensions", self.sizes(),
          indices.sizes());
  Dims own = dims_of(self.sizes()), other = dims_of(indices.sizes());
  own[static_cast<size_t>(at)] = indices.size(at);
  Dims index_sizes = broadcast_sizes(list_of(own), indices.sizes());
  other[static_cast<size_t>(at)] = self.size(at);
  Dims self_sizes = broadcast_sizes(self.sizes(), list_of(other));
  return gather(expand(self, list_of(self_sizes)), at, expand(indices, list_of(index_sizes)));
}

// ---- scatter

template <Fold fold, class T>
T folded(T a_, T b_) {
  using C = ComputeOf<T>;
  C a = a_, b = b_;
  if constexpr (fold == Fold::amax)
    return a == a && !(b <= a) ? b_ : a_;  // the first NaN stays
  else if constexpr (fold == Fold::amin)
    return a == a && !(b >= a) ? b_ : a_;
  else if constexpr (fold == Fold::prod && std::is_same_v<T, bool>)
    return a & b;
  else if constexpr (fold == Fold::prod)
    return static_cast<T>(a * b);
  else if constexpr (std::is_same_v<T, bool>)
    return a | b;
  else
    return static_cast<T>(a + b);
}

// What leaves each other value as it is: 0 would make a 0 of -0.
template <Fold fold, class T>
T neutral() {
  using C = ComputeOf<T>;
  using Limits = std::numeric_limits<C>;
  if constexpr (fold == Fold::amax)
    return static_cast<T>(Limits::has_infinity ? -Limits::infinity() : Limits::lowest());
  else if constexpr (fold == Fold::amin)
    return static_cast<T>(Limits::has_infinity ? Limits::infinity() : Limits::max());
  else
    return static_cast<T>(fold == Fold::prod ? C(1) : static_cast<C>(-C(0)));
}

template <class T>
T quotient(T sum, int64_t n) {
  if constexpr (is_float_type<T>)
    return static_cast<T>(static_cast<double>(sum) / static_cast<double>(n));
  else
    return static_cast<T>(detail::floordiv(static_cast<int64_t>(sum), n));
}

// Those of `src`, or one and the same.
void put_elements(const char* op, const Tensor& out, int64_t dim, const Tensor& index,
                  const Tensor* src, const Element16& element) {
  dispatch_itemsize(out.dtype(), [&]<class T>() {
    T* to = data_of<T>(out);
    const T* from = src ? data_of<T>(*src) : reinterpret_cast<const T*>(&element);
    for_each_indexed(op, out, dim, index, src,
                     [from, to](int64_t at, int64_t source) { to[at] = from[source]; });
  });
}

// A pass for each step, so that each is a loop of which vectors can be made.
template <Fold fold, class T>
void fold_elements(const char* op, const Tensor& out, int64_t dim, const Tensor& index,
                   const Tensor& src, bool include_self) {
  if (!include_self) {
    const T first = neutral<fold, T>();
    Element16 element{};
    std::memcpy(&element, &first, sizeof(T));
    put_elements(op, out, dim, index, nullptr, element);
  }
  T* to = data_of<T>(out);
  const T* from = data_of<T>(src);
  for_each_indexed(op, out, dim, index, &src, [to, from](int64_t at, int64_t source) {
    to[at] = folded<fold>(to[at], from[source]);
  });
}

// How often `index` meets each element of `out`.
std::vector<int64_t> meetings(const char* op, const Tensor& out, int64_t dim, const Tensor& index) {
  std::vector<int64_t> met(static_cast<size_t>(numel_of(out)), 0);
  int64_t* count = met.data();
  for_each_indexed(op, out, dim, index, nullptr, [count](int64_t at, int64_t) { ++count[at]; });
  return met;
}

// By how many it is the sum of.
template <class T>
void divide_elements(const Tensor& out, const std::vector<int64_t>& met, bool include_self) {
  T* to = data_of<T>(out);
  for (size_t i = 0; i < met.size(); ++i)
    if (int64_t n = met[i] + include_self; n > 1) to[i] = quotient(to[i], n);
}

// The first meeting replaces an element of `out` unless self is included.
void fold_into(const char* op, const Tensor& out, int64_t dim, const Tensor& index,
               const Tensor& src, Fold fold, bool include_self) {
  if (numel_of(index) == 0) return;
  dispatch_dtype(out.dtype(), op, [&]<class T>() {
    switch (fold) {
      case Fold::prod:
        return fold_elements<Fold::prod, T>(op, out, dim, index, src, include_self);
      case Fold::amax:
        return fold_elements<Fold::amax, T>(op, out, dim, index, src, include_self);
      case Fold::amin:
        return fold_elements<Fold::amin, T>(op, out, dim, index, src, include_self);
      default:
        fold_elements<Fold::sum, T>(op, out, dim, index, src, include_self);
        if (fold == Fold::mean)
          divide_elements<T>(out, meetings(op, out, dim, index), include_self);
    }
  });
}

TensorMeta scatter_meta(const char* op, const Tensor& self, int64_t dim, const Tensor& index) {
  check_index_shape(op, self, dim, index);
  return contiguous_meta(self.sizes(), self.dtype(), self.device());
}

// Each element of the index takes one of `src`. Of reductions, nothing is asked about a source that
// no element of the index reads.
TensorMeta scatter_source_meta(const char* op, const Tensor& self, int64_t dim, const Tensor& index,
                               const Tensor& src, bool reduces) {
  bool reads = !is_surely_empty(index);
  require(src.dtype() == self.dtype() || (reduces && !reads),
          "{}: src must have dtype {}, found {}", op, self.dtype(), src.dtype());
  require(!reads || covers(src, index), "{}: src of shape {} is smaller than index of shape {}", op,
          src.sizes(), index.sizes());
  return scatter_meta(op, self, dim, index);
}

void replace_elements(const char* op, const Tensor& out, int64_t dim, const Tensor& index,
                      const Tensor* src, Number value) {
  if (numel_of(index) == 0) return;
  Element16 element{};
  if (!src) store_number(&element, out.dtype(), value);
  put_elements(op, out, dim, index, src, element);
}

constexpr auto scatter_src_kernel = [](Tensor& out, const Tensor& self, int64_t dim,
                                       const Tensor& index, const Tensor& src) {
  copy_elements(out, self);
  replace_elements("scatter", out, dim, index, &src, 0);
};
constexpr auto scatter_value_kernel = [](Tensor& out, const Tensor& self, int64_t dim,
                                         const Tensor& index, Number value) {
  copy_elements(out, self);
  replace_elements("scatter", out, dim, index, nullptr, value);
};
constexpr auto scatter_fold_kernel = [](Tensor& out, const Tensor& self, int64_t dim,
                                        const Tensor& index, const Tensor& src,
                                        std::string_view reduce) {
  copy_elements(out, self);
  fold_into("scatter", out, dim, index, src, fold_named("scatter", reduce), true);
};
constexpr auto scatter_value_fold_kernel = [](Tensor& out, const Tensor& self, int64_t dim,
                                              const Tensor& index, Number value,
                                              std::string_view reduce) {
  copy_elements(out, self);
  Tensor src = make_tensor(contiguous_meta(index.sizes(), self.dtype()));
  fill_elements(src, value);
  fold_into("scatter", out, dim, index, src, fold_named("scatter", reduce), true);
};

// ---- take and put: indices into the flattened tensor

void take_kernel(Tensor& out, const Tensor& self, const Tensor& index) {
  Tensor in = contiguous_of(self), positions = index_of("take", index);
  dispatch_itemsize(self.dtype(), [&]<class T>() {
    for (int64_t i = 0; i < numel_of(positions); ++i)
      data_of<T>(out)[i] =
          data_of<T>(in)[checked_index("take", data_of<int64_t>(positions)[i], numel_of(in))];
  });
}

TensorMeta put_meta(const Tensor& self, const Tensor& index, const Tensor& source, bool) {
  require_index_dtype("put", index);
  require(sizes_match(index.numel(), source.numel()) && source.dtype() == self.dtype(),
          "put: {} indices for {} values of dtype {}, the tensor has dtype {}", index.numel(),
          source.numel(), source.dtype(), self.dtype());
  return like(self);
}

void put_kernel(Tensor& out, const Tensor& self, const Tensor& index, const Tensor& source,
                bool accumulate) {
  Tensor flat = make_tensor(contiguous_meta(self.sizes(), self.dtype()));
  copy_elements(flat, self);
  Tensor positions = index_of("put", index), values = contiguous_of(source);
  dispatch_dtype(self.dtype(), "put", [&]<class T>() {
    for (int64_t i = 0; i < numel_of(positions); ++i) {
      T& at =
          data_of<T>(flat)[checked_index("put", data_of<int64_t>(positions)[i], numel_of(flat))];
      at = accumulate ? folded<Fold::sum>(at, data_of<T>(values)[i]) : data_of<T>(values)[i];
    }
  });
  copy_elements(out, flat);
}

}  // namespace

namespace {

// `src` may be larger than the index: what is not used has no gradient.
Tensor scatter_source_vjp(const Tensor& g, int64_t dim, const Tensor& index, SymIntList sizes) {
  Tensor used = g.gather(dim, index);
  for (size_t d = 0; d < sizes.size(); ++d)
    if (!sizes_match(index.sizes()[d], sizes[d])) {
      auto at = static_cast<int64_t>(d);
      Dims wide = dims_of(used.sizes());
      wide[d] = sizes[d];
      used = g.new_zeros(list_of(wide)).slice_scatter(used, at, SymInt(0), index.size(at));
    }
  return used;
}

}  // namespace

static constexpr OpDef index_gather_rows[] = {
    {.schema = "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
     .core = true,
     .meta = fn<gather_meta>,
     .eager = fn<gather_kernel>,
     .vjp = {{"self", "grad, self.sizes, dim, index",
              [](const Tensor& g, SymIntList sizes, int64_t dim, const Tensor& index) {
                return g.new_zeros(sizes).scatter_add(dim, index, g);
              }}},
     .linear = "self"},
    {.schema = "take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
     .decomp = fn<taken_along>},
    {.schema = "take(Tensor self, Tensor index) -> Tensor",
     .meta =
         [](const Tensor& self, const Tensor& index) {
           require_index_dtype("take", index);
           return contiguous_meta(index.sizes(), self.dtype(), self.device());
         },
     .eager = fn<take_kernel>,
     .decomp =
         [](const Tensor& self, const Tensor& index) {
           Tensor flat = reshape(self, {-1});
           return tenon::index(flat, {index});
         },
     .vjp = {{"self", "grad, self.sizes, index",
              [](const Tensor& g, SymIntList sizes, const Tensor& index) {
                return g.new_zeros(sizes).put(index, g, true);
              }}},
     .linear = "self"},
    {.schema = "put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
     .variants = in_place,
     .meta = fn<put_meta>,
     .eager = fn<put_kernel>,
     .vjp = {{"self", "grad, index, accumulate",
              [](const Tensor& g, const Tensor& index, bool accumulate) {
                return accumulate ? g : g.put(index, g.new_zeros(index.sizes()), false);
              }},
             {"source", "grad, index, source.sizes",
              [](const Tensor& g, const Tensor& index, SymIntList sizes) {
                return g.take(index).reshape(sizes);
              }}},
     .linear = "self + source"},
    {.schema = "scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
     .variants = in_place,
     .core = true,
     .meta =
         [](const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
           return scatter_source_meta("scatter", self, dim, index, src, false);
         },
     .eager = scatter_src_kernel,
     .vjp = {{"self", "grad, dim, index",
              [](const Tensor& g, int64_t dim, const Tensor& index) {
                return g.scatter(dim, index, Number(0));
              }},
             {"src", "grad, dim, index, src.sizes", fn<scatter_source_vjp>}},
     .linear = "self + src"},
    {.schema = "scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
     .variants = in_place,
     .core = true,
     .meta = [](const Tensor& self, int64_t dim, const Tensor& index,
                Number) { return scatter_meta("scatter", self, dim, index); },
     .eager = scatter_value_kernel,
     .vjp = {{"self", "grad, dim, index",
              [](const Tensor& g, int64_t dim, const Tensor& index) {
                return g.scatter(dim, index, Number(0));
              }}},
     .linear = "self + value"},
    {.schema =
         "scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
     .variants = in_place,
     .meta =
         [](const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
            std::string_view reduce) {
           check_fold("scatter", reduce);
           return scatter_source_meta("scatter", self, dim, index, src, true);
         },
     .eager = scatter_fold_kernel},
    {.schema = "scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str "
               "reduce) -> Tensor",
     .variants = in_place,
     .meta =
         [](const Tensor& self, int64_t dim, const Tensor& index, Number, std::string_view reduce) {
           check_fold("scatter", reduce);
           return scatter_meta("scatter", self, dim, index);
         },
     .eager = scatter_value_fold_kernel},
    {.schema = "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
     .variants = in_place,
     .core = true,
     .meta =
         [](const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
           return scatter_source_meta("scatter_add", self, dim, index, src, true);
         },
     .eager =
         [](Tensor& out, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
           copy_elements(out, self);
           fold_into("scatter_add", out, dim, index, src, Fold::sum, true);
         },
     .vjp = {{"self", "grad", [](const Tensor& g) { return g; }},
             {"src", "grad, dim, index, src.sizes", fn<scatter_source_vjp>}},
     .linear = "self + src"},
    {.schema = "scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, "
               "bool include_self=True) -> Tensor",
     .variants = in_place,
     .core = true,
     .meta =
         [](const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
            std::string_view reduce, bool) {
           check_fold("scatter_reduce", reduce);
           return scatter_source_meta("scatter_reduce", self, dim, index, src, true);
         },
     .eager =
         [](Tensor& out, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
            std::string_view reduce, bool include_self) {
           copy_elements(out, self);
           fold_into("scatter_reduce", out, dim, index, src, fold_named("scatter_reduce", reduce),
                     include_self);
         },
     .vjp = {{"self, src", "grad, self, dim, index, src, reduce, include_self, result",
              fn<scatter_reduce_vjp>}}},
};

extern constinit const OpFamily op_family_index_gather{index_gather_rows};

}  // namespace tenon::ops
