// What the tests of oneDNN's kernels must know of the processor.
#pragma once

namespace tenon {

/// oneDNN multiplies in bf16, adds after other post-ops, and sums in short chains.
inline bool has_avx512() {
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

}  // namespace tenon
