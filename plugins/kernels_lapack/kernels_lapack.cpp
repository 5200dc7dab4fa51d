// kernels_lapack: factorisations and solvers of matrices on the CPU.
#include "kernels.h"

#include <cblas.h>

#include <cstdlib>
#include <mutex>
#include <string_view>

using namespace tenon::plugin;

// OpenBLAS's choice of kernels; missing where it is built for one processor.
extern "C" {
[[gnu::weak]] void gotoblas_dynamic_quit();
[[gnu::weak]] void gotoblas_dynamic_init();
}

namespace lapack {

// A build without threads has no locks either: calls from several threads mix up their buffers.
bool one_call_at_a_time() {
  static const bool answer = openblas_get_parallel() == OPENBLAS_SEQUENTIAL;
  return answer;
}

}  // namespace lapack

namespace {

// OpenBLAS takes a processor that is newer than itself for a Prescott of 2004, whose kernels are slow
// and give NaN where an earlier call had some (seen in ssyevd of OpenBLAS 0.3.21). A choice of the
// user's stays. OpenBLAS takes it from the environment only, which is changed for that moment, while
// the plugin is loaded, and on processors that it does not know.
void choose_kernels() {
  constexpr const char* choice = "OPENBLAS_CORETYPE";
  bool is_mistaken = std::string_view(openblas_get_corename()) == "Prescott" &&
                     __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (!is_mistaken || std::getenv(choice) || !gotoblas_dynamic_init || !gotoblas_dynamic_quit)
    return;
  setenv(choice, "Haswell", 0);
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  unsetenv(choice);
}

std::mutex calling;  // of all routines together

template <auto kernel>
bool guarded(const kernel_call& call) {
  std::unique_lock lock(calling, std::defer_lock);
  if (lapack::one_call_at_a_time()) lock.lock();
  return kernel(call);
}

constexpr kernel_row rows[] = {
    {"aten.linalg_cholesky_ex.default", guarded<lapack::cholesky>},
    {"aten.cholesky_solve.default", guarded<lapack::cholesky_solve>},
    {"aten.linalg_solve_triangular.default", guarded<lapack::solve_triangular>},
    {"aten.triangular_solve.default", guarded<lapack::triangular_solve>},
    {"aten.linalg_lu_factor_ex.default", guarded<lapack::lu_factor>},
    {"aten._lu_with_info.default", guarded<lapack::lu_factor>},
    {"aten.linalg_lu_solve.default", guarded<lapack::lu_solve>},
    {"aten._linalg_solve_ex.default", guarded<lapack::solve>},
    {"aten._linalg_det.default", guarded<lapack::det>},
    {"aten._linalg_slogdet.default", guarded<lapack::slogdet>},
    {"aten.geqrf.default", guarded<lapack::geqrf_op>},
    {"aten.linalg_qr.default", guarded<lapack::qr>},
    {"aten.linalg_householder_product.default", guarded<lapack::householder_product>},
    {"aten.ormqr.default", guarded<lapack::ormqr_op>},
    {"aten._linalg_eigh.default", guarded<lapack::eigh>},
    {"aten.linalg_eig.default", guarded<lapack::eig>},
    {"aten._linalg_svd.default", guarded<lapack::svd>},
    {"aten.linalg_lstsq.default", guarded<lapack::least_squares>},
    {"aten.linalg_ldl_factor_ex.default", guarded<lapack::ldl_factor>},
    {"aten.linalg_ldl_solve.default", guarded<lapack::ldl_solve>},
    {"aten.linalg_matrix_exp.default", guarded<lapack::matrix_exp>},
};

}  // namespace

TENON_PLUGIN(p) {
  choose_kernels();
  // The host's threads are the only ones: an OpenBLAS with threads of its own gets one.
  if (!lapack::one_call_at_a_time()) openblas_set_num_threads(1);
  p.kernels(TN_DEV_CPU, rows);
}
