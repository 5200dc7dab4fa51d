// Instruction-set levels: which of the compiled copies of a kernel this machine runs.
//
// A kernel text is compiled once a level, in `namespace tenon::base`, `tenon::avx2` and
// `tenon::avx512`, with the options that host/CMakeLists.txt sets on x_base.cpp, x_avx2.cpp and
// x_avx512.cpp. Each copy exports one table of functions; the caller picks by `cpu_level()`.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tenon {

enum class CpuLevel : uint8_t {
  base,    ///< any x86-64: 16-byte vectors
  avx2,    ///< with fma and f16c
  avx512,  ///< f, bw, dq and vl, on top of avx2
};

inline constexpr int n_cpu_levels = 3;

/// The level that kernels run at: what CPU and kernel support, lowered by the environment variable
/// TENON_CPU_LEVEL (base, avx2 or avx512). Found once; any thread.
CpuLevel cpu_level();

/// The highest level of this machine, whatever the environment says.
CpuLevel detect_cpu_level();

std::string_view name_of(CpuLevel level);
std::optional<CpuLevel> cpu_level_named(std::string_view name);

}  // namespace tenon
