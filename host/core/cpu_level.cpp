// Finding the instruction-set level of this machine.
#include "core/cpu_level.h"

#include <algorithm>
#include <cstdlib>

#include "core/error.h"

namespace tenon {

static constexpr std::string_view level_names[n_cpu_levels] = {"base", "avx2", "avx512"};

std::string_view name_of(CpuLevel level) { return level_names[static_cast<int>(level)]; }

std::optional<CpuLevel> cpu_level_named(std::string_view name) {
  const auto* found = std::find(std::begin(level_names), std::end(level_names), name);
  if (found == std::end(level_names)) return std::nullopt;
  return static_cast<CpuLevel>(found - std::begin(level_names));
}

CpuLevel detect_cpu_level() {
#if defined(__x86_64__)
  // The builtin also asks whether the operating system saves the wide registers.
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx512) return CpuLevel::avx512;
  if (avx2) return CpuLevel::avx2;
#endif
  return CpuLevel::base;
}

static CpuLevel chosen_level() {
  const CpuLevel here = detect_cpu_level();
  const char* text = std::getenv("TENON_CPU_LEVEL");
  if (text == nullptr || *text == '\0') return here;
  const std::optional<CpuLevel> asked = cpu_level_named(text);
  require(asked.has_value(),
          "TENON_CPU_LEVEL: expected base, avx2 or avx512, found '{}'; correct or unset it", text);
  return std::min(here, *asked);
}

CpuLevel cpu_level() {
  static const CpuLevel level = chosen_level();
  return level;
}

}  // namespace tenon
