// What the rows of dense algebra share: who runs them, what they ask of matrices, how results lie.
#pragma once

#include "ops/shapes.h"

#include <string_view>

namespace tenon::ops {

/// The plugin that has the kernels of factorisations and solvers.
inline constexpr const char* lapack = "kernels_lapack";

void require_matrices(std::string_view op, const Tensor& t);
void require_square(std::string_view op, const Tensor& t);

/// Batch dimensions followed by `last`.
Dims batch_with(const Tensor& t, std::initializer_list<SymInt> last, size_t n_matrix_dims = 2);
/// Row-major, or with each matrix column by column as LAPACK gives it.
TensorMeta columns_meta(Dims sizes, Dtype dtype, Device device);
TensorMeta rows_meta(const Dims& sizes, Dtype dtype, Device device);
SymInt smaller(SymInt a, SymInt b);

/// Whether `b` holds one vector for each matrix of `a` rather than a matrix.
bool is_vector_case(const Tensor& a, const Tensor& b);

}  // namespace tenon::ops
