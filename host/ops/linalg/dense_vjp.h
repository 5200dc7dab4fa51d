// Derivatives of factorisations and solves, as compositions of ops.
#pragma once

#include <tenon/tensor.h>

#include <string_view>
#include <tuple>

namespace tenon::ops {

Tensor cholesky_vjp(const Tensor& grad, const Tensor& factor, bool upper);
std::tuple<Tensor, Tensor> solve_triangular_vjp(const Tensor& grad, const Tensor& a,
                                                const Tensor& x, bool upper, bool left,
                                                bool unitriangular, BoolList needs);
std::tuple<Tensor, Tensor> old_triangular_solve_vjp(const Tensor& grad, const Tensor& grad_a,
                                                    const Tensor& a, const Tensor& x, bool upper,
                                                    bool transpose, bool unitriangular,
                                                    BoolList needs);
Tensor matrix_exp_vjp(const Tensor& grad, const Tensor& a);
Tensor lu_factor_vjp(const Tensor& grad, const Tensor& lu, const Tensor& pivots, bool pivot);
Tensor lu_unpack_vjp(const Tensor& grad_l, const Tensor& grad_u, SymIntList sizes);
std::tuple<Tensor, Tensor> lu_solve_vjp(const Tensor& grad, const Tensor& x, const Tensor& lu,
                                        const Tensor& pivots, bool left, bool adjoint,
                                        BoolList needs);
std::tuple<Tensor, Tensor> solve_ex_vjp(const Tensor& grad, const Tensor& a, const Tensor& x,
                                        bool left, BoolList needs);
Tensor det_vjp(const Tensor& grad, const Tensor& a);
Tensor slogdet_vjp(const Tensor& grad, const Tensor& a);
Tensor qr_vjp(const Tensor& grad_q, const Tensor& grad_r, const Tensor& q, const Tensor& r,
              const Tensor& a, std::string_view mode);
std::tuple<Tensor, Tensor> householder_product_vjp(const Tensor& grad, const Tensor& packed,
                                                   const Tensor& tau);
std::tuple<Tensor, Tensor, Tensor> ormqr_vjp(const Tensor& grad, const Tensor& packed,
                                             const Tensor& tau, const Tensor& other, bool left,
                                             bool transposed);
/// Of the solution with the least squares, for any rank that does not change nearby.
std::tuple<Tensor, Tensor> lstsq_vjp(const Tensor& grad, const Tensor& a, const Tensor& b);
/// Of any rank that does not change nearby (Golub and Pereyra, 1973).
Tensor pinv_vjp(const Tensor& grad, const Tensor& a, const Tensor& inverse);
Tensor eigh_vjp(const Tensor& grad_values, const Tensor& grad_vectors, const Tensor& values,
                const Tensor& vectors, const Tensor& a, std::string_view half, bool compute_v);
/// The vectors are complex, of length 1 and determined up to a phase; what is made of them may not
/// depend on it.
Tensor eig_vjp(const Tensor& grad_values, const Tensor& grad_vectors, const Tensor& values,
               const Tensor& vectors);
Tensor svd_vjp(const Tensor& grad_u, const Tensor& grad_s, const Tensor& grad_vh, const Tensor& u,
               const Tensor& s, const Tensor& vh, const Tensor& a, bool full_matrices,
               bool compute_uv);

}  // namespace tenon::ops
