// The matrix products of ATen: arguments to oneDNN calls, results in ATen's shapes and strides.
#include "kernels.h"

#include <dnn/batched_product.h>
#include <dnn/inner_product.h>
#include <dnn/packed_weights.h>

#include <algorithm>

namespace onednn {

using tenon::plugin::sizes;
using tenon::plugin::tensor;

namespace {

/// A matrix or a batch of them: sizes and strides of the last two dimensions named.
struct Matrix {
  const tn_tensor* t;
  int64_t rows, columns, row_stride, column_stride;

  explicit Matrix(const tn_tensor* t)
      : t(t),
        rows(t->sizes[t->ndim - 2]),
        columns(t->sizes[t->ndim - 1]),
        row_stride(t->strides[t->ndim - 2]),
        column_stride(t->strides[t->ndim - 1]) {}
  /// What oneDNN reads at speed: one of the two is dense, nothing is repeated or overlaps.
  bool is_good() const {
    bool by_rows = column_stride == 1 || columns == 1, by_columns = row_stride == 1 || rows == 1;
    return (by_rows && (rows == 1 || row_stride >= columns)) ||
           (by_columns && (columns == 1 || column_stride >= rows));
  }
  bool has_dense_rows() const {
    return (column_stride == 1 || columns == 1) && (row_stride == columns || rows == 1);
  }
};

/// source[m, k] x weights + bias: packed when the weights come again, else as they are.
struct Layer {
  const tn_tensor *source, *weights, *bias;
  int64_t m, k, n;
  int64_t source_row, source_column;
  int64_t weights_n_stride, weights_k_stride;
};

// Strides that mean something also where a size is 1, for oneDNN's sake.
std::vector<int64_t> matrix_strides(int64_t rows, int64_t columns, int64_t row_stride,
                                    int64_t column_stride) {
  if (columns == 1 && rows == 1) return {1, 1};
  if (columns == 1) return {row_stride, row_stride == 1 ? rows : 1};
  if (rows == 1) return {column_stride == 1 ? columns : 1, column_stride};
  return {row_stride, column_stride};
}

// One row or column in f32 is as fast as memory is read. The host's kernel does that as well, packs
// nothing and ends its chains of additions; oneDNN adds all terms to the result.
bool is_for_the_host(int64_t m, int64_t n, int32_t dtype) {
  return (m == 1 || n == 1) && dtype == TN_F32;
}

// Weights that are packed when they come again are packed already the first time where oneDNN would
// add in another order without. That costs nothing from some 30 rows on, and doubles the time of one.
bool run_layer(const Layer& l, void* result) {
  if (is_for_the_host(l.m, l.n, l.source->dtype)) return false;
  bool dense = (l.source_column == 1 || l.k == 1) && (l.source_row == l.k || l.m == 1);
  const void* bias = l.bias ? l.bias->data : nullptr;
  BatchedProductShape shape{.dtype = l.source->dtype, .m = l.m, .k = l.k, .n = l.n};
  shape.source_strides = matrix_strides(l.m, l.k, l.source_row, l.source_column);
  shape.other_strides = matrix_strides(l.k, l.n, l.weights_k_stride, l.weights_n_stride);
  shape.bias = bias != nullptr;
  bool comes_again = dense && seen_before(*l.weights, {l.weights_n_stride, l.weights_k_stride});
  bool packs = comes_again || (dense && adds_in_other_order(shape));
  if (packs && run_inner_product({.dtype = l.source->dtype,
                                  .m = l.m,
                                  .k = l.k,
                                  .n = l.n,
                                  .source = l.source->data,
                                  .weights = l.weights,
                                  .weights_n_stride = l.weights_n_stride,
                                  .weights_k_stride = l.weights_k_stride,
                                  .bias = bias,
                                  .result = result,
                                  .keeps_packed = comes_again}))
    return true;
  return run_batched_product({std::move(shape), l.source->data, l.weights->data, bias, result});
}

bool is_bias(const tn_tensor* bias, int64_t n, int32_t dtype) {
  return is_plain(bias) && bias->dtype == dtype && bias->ndim == 1 && bias->sizes[0] == n &&
         (bias->strides[0] == 1 || n == 1);
}

bool are_matrices(const tn_tensor* a, const tn_tensor* b, int32_t ndim) {
  return is_plain(a) && is_plain(b) && a->dtype == b->dtype && a->ndim == ndim && b->ndim == ndim;
}

double number(const tn_arg& a) {
  return a.kind == TN_ARG_FLOAT ? a.u.f : static_cast<double>(a.u.i);
}

bool multiply(const kernel_call& call, const tn_tensor* a, const tn_tensor* b,
              const tn_tensor* bias) {
  Matrix x(a), w(b);
  if (x.columns != w.rows || !x.is_good() || !w.is_good()) return false;
  tensor out = tensor::empty(std::array{x.rows, w.columns}, a->dtype);
  Layer layer{a,
              b,
              bias,
              x.rows,
              x.columns,
              w.columns,
              x.row_stride,
              x.column_stride,
              w.column_stride,
              w.row_stride};
  if (!run_layer(layer, out->data)) return false;
  call.give(0, std::move(out));
  return true;
}

// Batch strides of an operand; where it has length 1 against the result's it is repeated.
bool add_batch(const tn_tensor* t, const std::vector<int64_t>& batch, std::vector<int64_t>& out) {
  for (size_t d = 0; d < batch.size(); ++d) {
    if (t->sizes[d] != batch[d] && t->sizes[d] != 1) return false;
    out.push_back(t->sizes[d] == 1 ? 0 : t->strides[d]);
  }
  Matrix m(t);
  for (int64_t s : matrix_strides(m.rows, m.columns, m.row_stride, m.column_stride))
    out.push_back(s);
  return true;
}

/// alpha * a x b + beta * out for operands of equal rank, at least 3.
bool multiply_batches(const tn_tensor* a, const tn_tensor* b, float alpha, float beta, tensor& out,
                      const tn_tensor* added) {
  constexpr int32_t most_dimensions = 6;
  Matrix x(a), w(b);
  if (a->ndim > most_dimensions || x.columns != w.rows || !x.is_good() || !w.is_good() ||
      is_for_the_host(x.rows, w.columns, a->dtype))
    return false;
  BatchedProductShape shape{.dtype = a->dtype, .m = x.rows, .k = x.columns, .n = w.columns};
  shape.alpha = alpha;
  shape.beta = beta;
  std::vector<int64_t> result;
  for (int32_t d = 0; d < a->ndim - 2; ++d) result.push_back(std::max(a->sizes[d], b->sizes[d]));
  shape.batch = result;
  if (!add_batch(a, result, shape.source_strides) || !add_batch(b, result, shape.other_strides))
    return false;
  result.push_back(x.rows);
  result.push_back(w.columns);
  out = tensor::empty(result, a->dtype);
  if (beta != 0) {
    if (added->ndim > static_cast<int32_t>(result.size())) return false;
    out.copy_from(added);
  }
  return run_batched_product({std::move(shape), a->data, b->data, nullptr, out->data});
}

}  // namespace

bool mm(const kernel_call& call) {
  const tn_tensor *a = call.tensor_at(0), *b = call.tensor_at(1);
  return are_matrices(a, b, 2) && multiply(call, a, b, nullptr);
}

bool addmm(const kernel_call& call) {
  const tn_tensor *added = call.tensor_at(0), *a = call.tensor_at(1), *b = call.tensor_at(2);
  if (!are_matrices(a, b, 2)) return false;
  double beta = number(call.args[3]), alpha = number(call.args[4]);
  if (beta == 1 && alpha == 1 && is_bias(added, b->sizes[1], a->dtype))
    return multiply(call, a, b, added);
  Matrix x(a), w(b);
  bool fits = x.columns == w.rows && x.is_good() && w.is_good() &&
              (beta == 0 || (is_plain(added) && added->dtype == a->dtype && added->ndim <= 2));
  if (!fits) return false;
  tensor out = tensor::empty(std::array{x.rows, w.columns}, a->dtype);
  if (beta != 0) out.copy_from(added);
  BatchedProductShape shape{.dtype = a->dtype, .m = x.rows, .k = x.columns, .n = w.columns};
  shape.source_strides = matrix_strides(x.rows, x.columns, x.row_stride, x.column_stride);
  shape.other_strides = matrix_strides(w.rows, w.columns, w.row_stride, w.column_stride);
  shape.alpha = static_cast<float>(alpha);
  shape.beta = static_cast<float>(beta);
  if (!run_batched_product({std::move(shape), a->data, b->data, nullptr, out->data})) return false;
  call.give(0, std::move(out));
  return true;
}

bool bmm(const kernel_call& call) {
  const tn_tensor *a = call.tensor_at(0), *b = call.tensor_at(1);
  tensor out;
  if (!are_matrices(a, b, 3) || a->sizes[0] != b->sizes[0] ||
      !multiply_batches(a, b, 1, 0, out, nullptr))
    return false;
  call.give(0, std::move(out));
  return true;
}

bool baddbmm(const kernel_call& call) {
  const tn_tensor *added = call.tensor_at(0), *a = call.tensor_at(1), *b = call.tensor_at(2);
  if (!are_matrices(a, b, 3) || a->sizes[0] != b->sizes[0]) return false;
  float beta = static_cast<float>(number(call.args[3])),
        alpha = static_cast<float>(number(call.args[4]));
  if (beta != 0 && (!is_plain(added) || added->dtype != a->dtype)) return false;
  tensor out;
  if (!multiply_batches(a, b, alpha, beta, out, added)) return false;
  call.give(0, std::move(out));
  return true;
}

namespace {

struct Rows {
  int64_t count = 1, step = 0;
};

// The leading dimensions as rows, where one step leads from each row to the next.
std::optional<Rows> as_rows(const tn_tensor* t) {
  Rows out{.step = t->sizes[t->ndim - 1]};
  for (int32_t d = t->ndim - 2; d >= 0; --d) {
    if (t->sizes[d] == 1) continue;
    if (out.count == 1)
      out.step = t->strides[d];
    else if (t->strides[d] != out.step * out.count)
      return std::nullopt;
    out.count *= t->sizes[d];
  }
  return out;
}

/// source[..., k] x weights with element (n, k) at the given strides; result[..., n].
bool run_folded(const kernel_call& call, const tn_tensor* source, const tn_tensor* weights,
                const tn_tensor* bias, int64_t n, int64_t n_stride, int64_t k_stride) {
  tensor dense;
  int64_t k = source->sizes[source->ndim - 1];
  std::optional<Rows> rows = as_rows(source);
  bool is_dense = source->strides[source->ndim - 1] == 1 || k == 1;
  if (!rows || !is_dense || rows->step < k) {
    dense = tensor::empty(sizes(source), source->dtype);
    dense.copy_from(source);
    source = dense.get();
    rows = Rows{.count = source->numel / k, .step = k};
  }
  std::vector<int64_t> shape(source->sizes, source->sizes + source->ndim);
  shape.back() = n;
  tensor out = tensor::empty(shape, source->dtype);
  if (!run_layer({source, weights, bias, rows->count, k, n, rows->step, 1, n_stride, k_stride},
                 out->data))
    return false;
  call.give(0, std::move(out));
  return true;
}

}  // namespace

bool linear(const kernel_call& call) {
  const tn_tensor *source = call.tensor_at(0), *weights = call.tensor_at(1);
  const tn_tensor* bias = call.tensor_at(2);
  if (!is_plain(source) || !is_plain(weights) || source->dtype != weights->dtype ||
      source->ndim < 1 || weights->ndim != 2)
    return false;
  Matrix w(weights);
  bool fits = source->sizes[source->ndim - 1] == w.columns && w.is_good() &&
              (!bias || is_bias(bias, w.rows, source->dtype));
  return fits && run_folded(call, source, weights, bias, w.rows, w.row_stride, w.column_stride);
}

bool matmul(const kernel_call& call) {
  const tn_tensor *a = call.tensor_at(0), *b = call.tensor_at(1);
  if (!is_plain(a) || !is_plain(b) || a->dtype != b->dtype || a->ndim < 2) return false;
  if (b->ndim == 2) {
    Matrix w(b);
    return a->sizes[a->ndim - 1] == w.rows && w.is_good() &&
           run_folded(call, a, b, nullptr, w.columns, w.column_stride, w.row_stride);
  }
  tensor out;
  if (a->ndim != b->ndim || !multiply_batches(a, b, 1, 0, out, nullptr)) return false;
  call.give(0, std::move(out));
  return true;
}

}  // namespace onednn
