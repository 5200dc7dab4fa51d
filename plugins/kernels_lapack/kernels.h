// The rows of this plugin, one function an op. Each returns false, before anything is written, for
// what it does not take: other devices and dtypes than f32 and f64.
#pragma once

#include "batches.h"

namespace lapack {

bool cholesky(const kernel_call& call);
bool cholesky_solve(const kernel_call& call);

bool solve_triangular(const kernel_call& call);
bool triangular_solve(const kernel_call& call);

bool lu_factor(const kernel_call& call);
bool lu_solve(const kernel_call& call);
bool solve(const kernel_call& call);
bool det(const kernel_call& call);
bool slogdet(const kernel_call& call);

bool geqrf_op(const kernel_call& call);
bool qr(const kernel_call& call);
bool householder_product(const kernel_call& call);
bool ormqr_op(const kernel_call& call);

bool eigh(const kernel_call& call);
bool eig(const kernel_call& call);
bool svd(const kernel_call& call);

bool least_squares(const kernel_call& call);
bool ldl_factor(const kernel_call& call);
bool ldl_solve(const kernel_call& call);

bool matrix_exp(const kernel_call& call);

}  // namespace lapack
