// Whole slices along one dimension by a vector of indices: index_add, index_copy, index_fill,
// index_reduce.
#include "ops/index/advanced_index.h"
#include "ops/index/fold_names.h"
#include "ops/op.h"
#include "ops/shape_check.h"
#include "ops/vjp_rules.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/index.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

// A vector index seen as one of the shape of `source`, so that the scatter kernels serve.
Tensor spread_index(const Tensor& index, const Tensor& source, int64_t dim) {
  if (source.dim() == 0) return reshape(index, {});
  Dims sizes(source.sizes().size(), SymInt(1));
  sizes[static_cast<size_t>(wrap_dim(dim, source.dim()))] = index.numel();
  return expand(reshape(index, list_of(sizes)), source.sizes());
}

TensorMeta slices_meta(const char* op, const Tensor& self, int64_t dim, const Tensor& index) {
  wrap_dim(dim, self.dim());
  require(index.dim() <= 1, "{}: the index must be a vector, found shape {}", op, index.sizes());
  require_index_dtype(op, index);
  return like(self);
}

TensorMeta slices_meta(const char* op, const Tensor& self, int64_t dim, const Tensor& index,
                       const Tensor& source) {
  require(source.dtype() == self.dtype(), "{}: source must have the dtype of self, {}, found {}",
          op, self.dtype(), source.dtype());
  int64_t at = wrap_dim(dim, self.dim());
  bool fits = source.dim() == self.dim() || (source.dim() <= 1 && self.dim() <= 1);
  if (source.dim() == 0 || self.dim() == 0)
    fits = fits && sizes_match(source.numel(), index.numel());
  for (int64_t d = 0; fits && source.dim() == self.dim() && d < self.dim(); ++d)
    fits = sizes_match(source.size(d), d == at ? index.numel() : self.size(d));
  require(fits, "{}: source of shape {} has not {} slices of self, which has shape {}", op,
          source.sizes(), index.numel(), self.sizes());
  return slices_meta(op, self, dim, index);
}

// Slices whose elements are neighbours, one after another as scatter_add takes them.
template <class T>
void add_slices(Tensor& out, size_t dim, const Tensor& positions, const Tensor& source) {
  int64_t outer = 1, inner = 1, size = sizes_of(out)[dim], n = numel_of(positions);
  for (size_t d = 0; d < static_cast<size_t>(out.dim()); ++d)
    if (d != dim) (d < dim ? outer : inner) *= sizes_of(out)[d];
  const T* from = data_of<T>(source);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < n; ++i, from += inner) {
      int64_t at = checked_index("index_add", data_of<int64_t>(positions)[i], size);
      T* to = data_of<T>(out) + (o * size + at) * inner;
      for (int64_t k = 0; k < inner; ++k) to[k] += from[k];
    }
}

void index_add_kernel(Tensor& out, const Tensor& self, int64_t dim, const Tensor& index,
                      const Tensor& source, Number alpha) {
  Tensor added = scaled(source, alpha);
  bool is_wide = self.dtype() == Dtype::f32 || self.dtype() == Dtype::f64;
  if (is_wide && self.dim() > 0 && source.dim() == self.dim() && out.is_contiguous()) {
    copy_elements(out, self);
    Tensor positions = index_of("index_add", index), values = contiguous_of(added);
    auto at = static_cast<size_t>(wrap_dim(dim, self.dim()));
    return self.dtype() == Dtype::f32 ? add_slices<float>(out, at, positions, values)
                                      : add_slices<double>(out, at, positions, values);
  }
  copy_elements(out, scatter_add(contiguous(self), dim, spread_index(index, source, dim), added));
}

void index_copy_kernel(Tensor& out, const Tensor& self, int64_t dim, const Tensor& index,
                       const Tensor& source) {
  copy_elements(out, scatter(contiguous(self), dim, spread_index(index, source, dim), source));
}

void index_fill_kernel(Tensor& out, const Tensor& self, int64_t dim, const Tensor& index,
                       Number value) {
  copy_elements(out, self);
  Tensor positions = index_of("index_fill", index);
  int64_t size = self.dim() ? sizes_of(self)[static_cast<size_t>(wrap_dim(dim, self.dim()))] : 1;
  for (int64_t i = 0; i < numel_of(positions); ++i) {
    int64_t at = checked_index("index_fill", data_of<int64_t>(positions)[i], size);
    fill_elements(self.dim() ? select(out, dim, at) : out, value);
  }
}

void index_reduce_kernel(Tensor& out, const Tensor& self, int64_t dim, const Tensor& index,
                         const Tensor& source, std::string_view reduce, bool include_self) {
  copy_elements(out, scatter_reduce(contiguous(self), dim, spread_index(index, source, dim), source,
                                    reduce, include_self));
}

}  // namespace

namespace {

std::tuple<Tensor, Tensor> index_reduce_vjp(const Tensor& g, const Tensor& self, int64_t dim,
                                            const Tensor& index, const Tensor& source,
                                            std::string_view reduce, bool include_self,
                                            const Tensor& result) {
  if (self.dim() == 0)
    return scatter_reduce_vjp(g, self, dim, index.reshape(source.sizes()), source, reduce,
                              include_self, result);
  Dims shape(source.sizes().size(), SymInt(1));
  shape[static_cast<size_t>(dim < 0 ? dim + source.dim() : dim)] = index.numel();
  Tensor places = index.reshape(list_of(shape)).expand(source.sizes());
  return scatter_reduce_vjp(g, self, dim, places, source, reduce, include_self, result);
}

// The slices along `dim` that `index` names become `values`, or grow by them.
Tensor with_slices(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& values,
                   bool grow) {
  if (self.dim() == 0) {
    // A number, which may be on the CPU, stays one.
    Tensor row = values.dim() == 0 ? values : reshape(values, {-1});
    return reshape(with_slices(reshape(self, {1}), 0, index, row, grow), {});
  }
  std::vector<Tensor> indices(static_cast<size_t>(dim < 0 ? dim + self.dim() : dim) + 1);
  indices.back() = reshape(index, {-1});
  return index_put(self, indices, values, grow);
}

}  // namespace

static constexpr OpDef index_scatter_rows[] = {
    {.schema = "index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> "
               "Tensor",
     .variants = in_place,
     .meta = [](const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                Number) { return slices_meta("index_add", self, dim, index, source); },
     .eager = fn<index_add_kernel>,
     .decomp =
         [](const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
            Number alpha) { return with_slices(self, dim, index, scaled(source, alpha), true); },
     .vjp = {{"self", "grad", [](const Tensor& g) { return g; }},
             {"source", "grad, dim, index, source.sizes, alpha",
              [](const Tensor& g, int64_t dim, const Tensor& index, SymIntList sizes,
                 Number alpha) { return g.index_select(dim, index).reshape(sizes).mul(alpha); }}},
     .linear = "self + source"},
    {.schema = "index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
     .variants = in_place,
     .meta =
         [](const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
           return slices_meta("index_copy", self, dim, index, source);
         },
     .eager = fn<index_copy_kernel>,
     .decomp = [](const Tensor& self, int64_t dim, const Tensor& index,
                  const Tensor& source) { return with_slices(self, dim, index, source, false); },
     .vjp = {{"self", "grad, dim, index",
              [](const Tensor& g, int64_t dim, const Tensor& index) {
                return g.index_fill(dim, index, 0);
              }},
             {"source", "grad, dim, index, source.sizes",
              [](const Tensor& g, int64_t dim, const Tensor& index, SymIntList sizes) {
                return g.index_select(dim, index).reshape(sizes);
              }}},
     .linear = "self + source",
     .autocast = Autocast::promote},
    {.schema = "index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
     .variants = in_place,
     .meta = [](const Tensor& self, int64_t dim, const Tensor& index,
                Number) { return slices_meta("index_fill", self, dim, index); },
     .eager = fn<index_fill_kernel>,
     .decomp =
         [](const Tensor& self, int64_t dim, const Tensor& index, Number value) {
           return with_slices(self, dim, index, full({}, value, self.dtype()), false);
         },
     .vjp = {{"self", "grad, dim, index",
              [](const Tensor& g, int64_t dim, const Tensor& index) {
                return g.index_fill(dim, index, 0);
              }}},
     .linear = "self + value"},
    {.schema = "index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor",
     .variants = in_place,
     .meta =
         [](const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
           require_shape("index_fill", "value", value, {});
           return slices_meta("index_fill", self, dim, index);
         },
     .eager =
         [](Tensor& out, const Tensor& self, int64_t dim, const Tensor& index,
            const Tensor& value) {
           index_fill_kernel(out, self, dim, index,
                             load_number(impl_of(value)->data, value.dtype()));
         },
     .decomp =
         [](const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
           return with_slices(self, dim, index, to(value, self.dtype()), false);
         },
     .vjp = {{"self", "grad, dim, index",
              [](const Tensor& g, int64_t dim, const Tensor& index) {
                return g.index_fill(dim, index, 0);
              }},
             {"value", "grad, dim, index",
              [](const Tensor& g, int64_t dim, const Tensor& index) {
                return g.index_select(dim, std::get<0>(_unique(index))).sum();
              }}},
     .linear = "self + value"},
    {.schema = "index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, "
               "bool include_self=True) -> Tensor",
     .variants = in_place,
     .meta =
         [](const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
            std::string_view reduce, bool) {
           check_fold("index_reduce", reduce);
           return slices_meta("index_reduce", self, dim, index, source);
         },
     .eager = fn<index_reduce_kernel>,
     .vjp = {{"self, source", "grad, self, dim, index, source, reduce, include_self, result",
              fn<index_reduce_vjp>}}},
};

extern constinit const OpFamily op_family_index_scatter{index_scatter_rows};

}  // namespace tenon::ops
