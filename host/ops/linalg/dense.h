// What the dense factorisations share: batches of row-major f64 matrices, their metas, LU and
// triangular solves.
#pragma once

#include "ops/kernel_loops.h"
#include "ops/shapes.h"

#include <vector>

namespace tenon::ops {

/// A batch of matrices, each row by row in f64, whatever the dtype of the op.
struct Matrices {
  Tensor data;
  int64_t count = 0, rows = 0, cols = 0;
  double* at(int64_t i) const { return data_of<double>(data) + i * rows * cols; }
};

/// A copy of the matrices in the last two dimensions.
Matrices matrices_of(const Tensor& t);
Matrices zero_matrices(int64_t count, int64_t rows, int64_t cols);
/// Writes the elements of `m`, in order, to `out` of any dtype and strides.
void store(const Tensor& out, const Matrices& m);
/// The same for a vector of numbers.
void store(const Tensor& out, const std::vector<double>& values);

void require_matrices(std::string_view op, const Tensor& t);
void require_square(std::string_view op, const Tensor& t);

/// Batch dimensions followed by `last`.
Dims batch_with(const Tensor& t, std::initializer_list<SymInt> last, size_t n_matrix_dims = 2);
/// Row-major, or with each matrix column by column as LAPACK gives it.
TensorMeta columns_meta(Dims sizes, Dtype dtype, Device device);
TensorMeta rows_meta(const Dims& sizes, Dtype dtype, Device device);
SymInt smaller(SymInt a, SymInt b);

/// In place: L below the diagonal (ones on it left out), U on and above; pivots from 1. Returns
/// the number of the first zero pivot from 1, or 0.
int64_t factor_lu(double* a, int64_t rows, int64_t cols, int64_t* pivots, bool pivot);
/// x := the solution of A x = b, or of its transpose, for an LU of order n; x has `cols` columns.
void solve_lu(const double* lu, const int64_t* pivots, int64_t n, double* x, int64_t cols,
              bool transpose);

struct Triangle {
  bool upper = false, unit = false, transpose = false;
};
/// x := the solution of T x = b for a triangular matrix of order n.
void solve_triangle(const double* a, int64_t n, Triangle shape, double* x, int64_t cols);

}  // namespace tenon::ops
