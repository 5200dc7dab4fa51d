// kernels_lapack: factorisations and solvers of matrices on the CPU.
#include "kernels.h"

#include <cblas.h>

using namespace tenon::plugin;

namespace {

constexpr kernel_row rows[] = {
    {"aten.linalg_cholesky_ex.default", lapack::cholesky},
    {"aten.cholesky_solve.default", lapack::cholesky_solve},
    {"aten.linalg_solve_triangular.default", lapack::solve_triangular},
    {"aten.triangular_solve.default", lapack::triangular_solve},
    {"aten.linalg_lu_factor_ex.default", lapack::lu_factor},
    {"aten._lu_with_info.default", lapack::lu_factor},
    {"aten.linalg_lu_solve.default", lapack::lu_solve},
    {"aten._linalg_solve_ex.default", lapack::solve},
    {"aten._linalg_det.default", lapack::det},
    {"aten._linalg_slogdet.default", lapack::slogdet},
    {"aten.geqrf.default", lapack::geqrf_op},
    {"aten.linalg_qr.default", lapack::qr},
    {"aten.linalg_householder_product.default", lapack::householder_product},
    {"aten.ormqr.default", lapack::ormqr_op},
    {"aten._linalg_eigh.default", lapack::eigh},
    {"aten._linalg_svd.default", lapack::svd},
    {"aten.linalg_lstsq.default", lapack::least_squares},
    {"aten.linalg_ldl_factor_ex.default", lapack::ldl_factor},
    {"aten.linalg_ldl_solve.default", lapack::ldl_solve},
    {"aten.linalg_matrix_exp.default", lapack::matrix_exp},
};

}  // namespace

TENON_PLUGIN(p) {
  // The host's threads are the only ones: an OpenBLAS with threads of its own gets one. The serial
  // build has none, and nothing of the process is changed.
  if (openblas_get_parallel() != OPENBLAS_SEQUENTIAL) openblas_set_num_threads(1);
  p.kernels(TN_DEV_CPU, rows);
}
