// Whole slices along one dimension by a vector of indices: index_add, index_copy, index_fill,
// index_reduce; and embedding tables.
#include "ops/index/advanced_index.h"
#include "ops/op.h"

#include "core/sym_int.h"

#include <tenon/ops.h>

#include <algorithm>
#include <cmath>

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
  require(index.dim() <= 1, "{}: the index must be a vector, found shape {}", op, to_text(index.sizes()));
  return like(self);
}

void index_add_kernel(Tensor& out, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                      Number alpha) {
  Tensor scaled = alpha.is_integer() && alpha.to_int() == 1 ? source : mul(source, alpha);
  copy_elements(out, scatter_add(contiguous(self), dim, spread_index(index, source, dim), scaled));
}

void index_copy_kernel(Tensor& out, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  copy_elements(out, scatter(contiguous(self), dim, spread_index(index, source, dim), source));
}

void index_fill_kernel(Tensor& out, const Tensor& self, int64_t dim, const Tensor& index, Number value) {
  copy_elements(out, self);
  Tensor positions = index_of("index_fill", index);
  int64_t size = self.dim() ? sizes_of(self)[static_cast<size_t>(wrap_dim(dim, self.dim()))] : 1;
  for (int64_t i = 0; i < numel_of(positions); ++i) {
    int64_t at = checked_index("index_fill", data_of<int64_t>(positions)[i], size);
    fill_elements(self.dim() ? select(out, dim, at) : out, value);
  }
}

void index_reduce_kernel(Tensor& out, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                         std::string_view reduce, bool include_self) {
  copy_elements(out, scatter_reduce(contiguous(self), dim, spread_index(index, source, dim), source, reduce, include_self));
}

// ---- embedding

TensorMeta embedding_meta(const Tensor& weight, const Tensor& indices, SymInt, bool, bool) {
  require(weight.dim() == 2, "embedding: the weight must be a matrix, found shape {}", to_text(weight.sizes()));
  Dims sizes = dims_of(indices.sizes());
  sizes.push_back(weight.size(1));
  return contiguous_meta(list_of(sizes), weight.dtype(), weight.device());
}

void embedding_kernel(Tensor& out, const Tensor& weight, const Tensor& indices, SymInt, bool, bool) {
  Tensor table = contiguous_of(weight), positions = index_of("embedding", indices);
  int64_t n_rows = sizes_of(table)[0], bytes = sizes_of(table)[1] * itemsize(weight.dtype());
  for (int64_t i = 0; i < numel_of(positions); ++i) {
    int64_t row = data_of<int64_t>(positions)[i];
    require(row >= 0 && row < n_rows, "embedding: index {} is out of range for a table of {} rows", row, n_rows);
    std::memcpy(data_of<char>(out) + i * bytes, data_of<char>(table) + row * bytes, static_cast<size_t>(bytes));
  }
}

void embedding_backward_kernel(Tensor& out, const Tensor& grad, const Tensor& indices, SymInt, SymInt padding,
                               bool scale_by_count) {
  Tensor g = contiguous_of(grad), positions = index_of("embedding_dense_backward", indices);
  int64_t width = sizes_of(out)[1], padding_row = padding;
  std::vector<int64_t> count(static_cast<size_t>(sizes_of(out)[0]), 0);
  const int64_t* rows = data_of<int64_t>(positions);
  for (int64_t i = 0; i < numel_of(positions); ++i) ++count[static_cast<size_t>(checked_index("embedding_dense_backward", rows[i], sizes_of(out)[0]))];
  Tensor sums = make_tensor(contiguous_meta(out.sizes(), Dtype::f64));
  fill_elements(sums, 0);
  dispatch_floating(g.dtype(), "embedding_dense_backward", [&]<class T>() {
    for (int64_t i = 0; i < numel_of(positions); ++i) {
      if (rows[i] == padding_row) continue;
      double scale = scale_by_count ? 1.0 / static_cast<double>(count[static_cast<size_t>(rows[i])]) : 1.0;
      for (int64_t c = 0; c < width; ++c)
        data_of<double>(sums)[rows[i] * width + c] += scale * static_cast<double>(data_of<T>(g)[i * width + c]);
    }
  });
  copy_elements(out, sums);
}

// Rows that are longer than max_norm are scaled down to it.
void embedding_renorm_kernel(const Tensor& self, const Tensor& indices, double max_norm, double p) {
  Tensor positions = index_of("embedding_renorm_", indices);
  std::vector<int64_t> rows(data_of<int64_t>(positions), data_of<int64_t>(positions) + numel_of(positions));
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  for (int64_t r : rows) {
    Tensor row = select(self, 0, r);
    double length = item(to(linalg_vector_norm(row, p), Dtype::f64)).to_double();
    if (length > max_norm) copy_(row, mul(row, max_norm / (length + 1e-7)));
  }
}

}  // namespace

static constexpr OpDef rows[] = {
    {.schema = "index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
     .variants = in_place,
     .meta = [](const Tensor& self, int64_t dim, const Tensor& index, const Tensor&, Number) {
       return slices_meta("index_add", self, dim, index);
     },
     .eager = fn<index_add_kernel>},
    {.schema = "index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor", .variants = in_place,
     .meta = [](const Tensor& self, int64_t dim, const Tensor& index, const Tensor&) {
       return slices_meta("index_copy", self, dim, index);
     },
     .eager = fn<index_copy_kernel>},
    {.schema = "index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
     .variants = in_place,
     .meta = [](const Tensor& self, int64_t dim, const Tensor& index, Number) {
       return slices_meta("index_fill", self, dim, index);
     },
     .eager = fn<index_fill_kernel>},
    {.schema = "index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor",
     .variants = in_place,
     .meta = [](const Tensor& self, int64_t dim, const Tensor& index, const Tensor&) {
       return slices_meta("index_fill", self, dim, index);
     },
     .eager = [](Tensor& out, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
       index_fill_kernel(out, self, dim, index, load_number(impl_of(value)->data, value.dtype()));
     }},
    {.schema = "index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, "
               "bool include_self=True) -> Tensor",
     .variants = in_place,
     .meta = [](const Tensor& self, int64_t dim, const Tensor& index, const Tensor&, std::string_view, bool) {
       return slices_meta("index_reduce", self, dim, index);
     },
     .eager = fn<index_reduce_kernel>},
    {.schema = "embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, "
               "bool sparse=False) -> Tensor",
     .core = true, .meta = fn<embedding_meta>, .eager = fn<embedding_kernel>},
    {.schema = "embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, "
               "SymInt padding_idx, bool scale_grad_by_freq) -> Tensor",
     .core = true,
     .meta = [](const Tensor& grad, const Tensor&, SymInt n_rows, SymInt, bool) {
       return contiguous_meta({n_rows, grad.size(-1)}, grad.dtype(), grad.device());
     },
     .eager = fn<embedding_backward_kernel>},
    {.schema = "embedding_renorm_(Tensor(a!) self, Tensor indices, float max_norm, float norm_type) -> Tensor(a!)",
     .meta = [](const Tensor&, const Tensor&, double, double) {}, .eager = fn<embedding_renorm_kernel>},
};

extern constinit const OpFamily op_family_index_scatter{rows};

}  // namespace tenon::ops
