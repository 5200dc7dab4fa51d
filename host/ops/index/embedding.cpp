// Embedding tables: rows by index.
#include "core/sym/shape_env.h"
#include "ops/index/advanced_index.h"
#include "ops/index/embedding_parts.h"
#include "ops/op.h"
#include "ops/shape_check.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/index.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

#include <algorithm>

namespace tenon::ops {

namespace {
TensorMeta embedding_meta(const Tensor& weight, const Tensor& indices, SymInt, bool, bool) {
  require(weight.dim() == 2, "embedding: the weight must be a matrix, found shape {}",
          weight.sizes());
  require_index_dtype("embedding", indices);
  Dims sizes = dims_of(indices.sizes());
  sizes.push_back(weight.size(1));
  return contiguous_meta(list_of(sizes), weight.dtype(), weight.device());
}

void embedding_kernel(Tensor& out, const Tensor& weight, const Tensor& indices, SymInt, bool,
                      bool) {
  Tensor table = contiguous_of(weight), positions = index_of("embedding", indices);
  int64_t n_rows = sizes_of(table)[0], bytes = sizes_of(table)[1] * itemsize(weight.dtype());
  for (int64_t i = 0; i < numel_of(positions); ++i) {
    int64_t row = data_of<int64_t>(positions)[i];
    require(row >= 0 && row < n_rows, "embedding: index {} is out of range for a table of {} rows",
            row, n_rows);
    std::memcpy(data_of<char>(out) + i * bytes, data_of<char>(table) + row * bytes,
                static_cast<size_t>(bytes));
  }
}

void embedding_backward_kernel(Tensor& out, const Tensor& grad, const Tensor& indices, SymInt,
                               SymInt padding, bool scale_by_count) {
  Tensor g = contiguous_of(grad), positions = index_of("embedding_dense_backward", indices);
  int64_t width = sizes_of(out)[1], padding_row = padding;
  int64_t n_rows = sizes_of(out)[0];
  std::vector<int64_t> count(static_cast<size_t>(n_rows), 0);
  const int64_t* rows = data_of<int64_t>(positions);
  for (int64_t i = 0; i < numel_of(positions); ++i) {
    if (rows[i] == padding_row) continue;
    require(rows[i] >= 0 && rows[i] < n_rows,
            "embedding_dense_backward: index {} is out of range for a table of {} rows", rows[i],
            n_rows);
    ++count[static_cast<size_t>(rows[i])];
  }
  Tensor sums = make_tensor(contiguous_meta(out.sizes(), Dtype::f64));
  fill_elements(sums, 0);
  dispatch_floating(g.dtype(), "embedding_dense_backward", [&]<class T>() {
    for (int64_t i = 0; i < numel_of(positions); ++i) {
      if (rows[i] == padding_row) continue;
      double scale =
          scale_by_count ? 1.0 / static_cast<double>(count[static_cast<size_t>(rows[i])]) : 1.0;
      for (int64_t c = 0; c < width; ++c)
        data_of<double>(sums)[rows[i] * width + c] +=
            scale * static_cast<double>(data_of<T>(g)[i * width + c]);
    }
  });
  copy_elements(out, sums);
}

TensorMeta embedding_backward_meta(const Tensor& grad, const Tensor& indices, SymInt n_rows, SymInt,
                                   bool) {
  Dims sizes = dims_of(indices.sizes());
  sizes.push_back(grad.size(-1));
  require_shape("embedding_dense_backward", "grad_output", grad, list_of(sizes));
  require_floating("embedding_dense_backward", grad.dtype());
  require_index_dtype("embedding_dense_backward", indices);
  return contiguous_meta({n_rows, grad.size(-1)}, grad.dtype(), grad.device());
}

// Rows that are longer than max_norm are scaled down to it.
void embedding_renorm_kernel(const Tensor& self, const Tensor& indices, double max_norm, double p) {
  Tensor positions = index_of("embedding_renorm_", indices);
  std::vector<int64_t> rows(data_of<int64_t>(positions),
                            data_of<int64_t>(positions) + numel_of(positions));
  if (!rows.empty()) require_floating("embedding_renorm_", self.dtype());
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  for (int64_t r : rows) {
    Tensor row = select(self, 0, r);
    double length = item(to(linalg_vector_norm(row, p), Dtype::f64)).to_double();
    if (length > max_norm) copy_(row, mul(row, max_norm / (length + 1e-7)));
  }
}

// The same for any device: a row that is named twice gets the same values twice.
Tensor embedding_renorm_decomp(const Tensor& self, const Tensor& indices, double max_norm,
                               double p) {
  if (guard_or_false(indices.numel() == 0)) return self;
  Tensor named = reshape(indices, {-1});
  Tensor rows = index_select(self, 0, named);
  Tensor wide = self.dim() == 1 ? unsqueeze(rows, 1) : flatten(rows, 1);
  Tensor length = to(linalg_vector_norm(wide, p, std::vector<int64_t>{1}, true), Dtype::f64);
  Tensor factor = where(length.gt(max_norm), max_norm / length.add(1e-7), Number(1.0));
  Tensor scaled = reshape(mul(wide, to(factor, self.dtype())), rows.sizes());
  return index_put_(self, {named}, scaled);
}

}  // namespace

static constexpr OpDef index_embedding_rows[] = {
    {.schema = "embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool "
               "scale_grad_by_freq=False, "
               "bool sparse=False) -> Tensor",
     .core = true,
     .meta = fn<embedding_meta>,
     .eager = fn<embedding_kernel>,
     .vjp = {{"weight", "grad, indices, weight.sizes, padding_idx, scale_grad_by_freq",
              [](const Tensor& g, const Tensor& indices, SymIntList sizes, SymInt padding,
                 bool by_freq) {
                return embedding_dense_backward(g, indices, sizes[0], padding, by_freq);
              }}},
     .linear = "weight"},
    {.schema = "embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, "
               "SymInt padding_idx, bool scale_grad_by_freq) -> Tensor",
     .core = true,
     .meta = fn<embedding_backward_meta>,
     .eager = fn<embedding_backward_kernel>,
     .vjp = {{"grad_output", "grad, indices, padding_idx", fn<embedding_dense_vjp>}}},
    {.schema = "embedding_renorm_(Tensor(a!) self, Tensor indices, float max_norm, float "
               "norm_type) -> Tensor(a!)",
     .meta =
         [](const Tensor& self, const Tensor& indices, double, double) {
           require(self.dim() > 0, "embedding_renorm_: a table of rows is expected, found shape {}",
                   self.sizes());
           require_index_dtype("embedding_renorm_", indices);
           if (!guard_or_false(indices.numel() == 0))
             require_floating("embedding_renorm_", self.dtype());
         },
     .eager = fn<embedding_renorm_kernel>,
     .decomp = fn<embedding_renorm_decomp>},
    {.schema = "embedding_backward(Tensor grad, Tensor indices, SymInt num_weights, SymInt "
               "padding_idx, bool scale_grad_by_freq, bool sparse) -> Tensor",
     .decomp =
         [](const Tensor& grad, const Tensor& indices, SymInt n_rows, SymInt padding, bool count,
            bool) { return embedding_dense_backward(grad, indices, n_rows, padding, count); }},
};

extern constinit const OpFamily op_family_index_embedding{index_embedding_rows};

}  // namespace tenon::ops
