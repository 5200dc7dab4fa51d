// Choosing the table of compute kernels.
#include "core/kernels/level_table.h"

#include "core/error.h"

#include <atomic>

namespace tenon {

namespace base {
extern const kernels::KernelTable compute_kernels;
}
namespace avx2 {
extern const kernels::KernelTable compute_kernels;
}
namespace avx512 {
extern const kernels::KernelTable compute_kernels;
}

namespace kernels {

static std::atomic<const KernelTable*> chosen{nullptr};

const KernelTable& kernel_table(CpuLevel level) {
  ensure(level <= detect_cpu_level(), "kernels of a CPU level that this machine lacks");
  switch (level) {
    case CpuLevel::avx512:
      return avx512::compute_kernels;
    case CpuLevel::avx2:
      return avx2::compute_kernels;
    case CpuLevel::base:
      break;
  }
  return base::compute_kernels;
}

const KernelTable& kernel_table() {
  const KernelTable* table = chosen.load(std::memory_order_acquire);
  if (table == nullptr) [[unlikely]] {
    table = &kernel_table(cpu_level());
    chosen.store(table, std::memory_order_release);
  }
  return *table;
}

void use_kernel_level(CpuLevel level) {
  chosen.store(&kernel_table(level), std::memory_order_release);
}

}  // namespace kernels
}  // namespace tenon
