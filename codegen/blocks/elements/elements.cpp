// Which level of vectors this processor has.
#include "elements.h"

namespace blocks {

const Elements& elements() {
  static const Elements& chosen = [&]() -> const Elements& {
    bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
    return has_avx512 ? avx512::table : has_avx2 ? avx2::table : base::table;
  }();
  return chosen;
}

}  // namespace blocks
