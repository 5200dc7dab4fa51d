// The choice of a level of vectors, once a process.
#include "kernels.h"

namespace microkernel {

namespace {

const Kernels*& chosen() {
  static const Kernels* best = []() -> const Kernels* {
#if defined(__x86_64__)
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (avx512 && __builtin_cpu_supports("avx512bf16")) return &kernels_avx512_bf16;
    if (avx512) return &kernels_avx512;
    if (avx2) return &kernels_avx2;
#endif
    return &kernels_base;
  }();
  return best;
}

}  // namespace

const Kernels& kernels() { return *chosen(); }
void use(const Kernels& kernels) { chosen() = &kernels; }

}  // namespace microkernel
