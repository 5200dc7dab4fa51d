// Floating-point modes in words.
#include "core/float_mode.h"

#include <string_view>

namespace tenon {

namespace {

#if defined(__x86_64__)
constexpr uint64_t flush_bits = 0x8040, rounding_bits = 0x6000, trap_bits = 0x1F80;
constexpr int rounding_at = 13;
constexpr std::string_view roundings[] = {"to nearest", "downwards", "upwards", "towards zero"};
#else
constexpr uint64_t flush_bits = uint64_t{1} << 24, rounding_bits = uint64_t{3} << 22,
                   trap_bits = 0x9F00;
constexpr int rounding_at = 22;
constexpr std::string_view roundings[] = {"to nearest", "upwards", "downwards", "towards zero"};
#endif

}  // namespace

std::string difference_of(const FloatMode& before, const FloatMode& after) {
  uint64_t changed = before.control ^ after.control;
  std::string out;
  auto add = [&](std::string_view text) { out.append(out.empty() ? "" : ", ").append(text); };
  if (changed & flush_bits)
    add(after.control & flush_bits ? "flushes denormal numbers to zero" : "keeps denormal numbers");
  if (changed & rounding_bits)
    add("rounds " + std::string(roundings[(after.control & rounding_bits) >> rounding_at]));
  if (changed & trap_bits) add("traps other exceptions");
  if (before.x87 != after.x87) add("changes the x87 unit");
  return out.empty() ? "computes differently" : out;
}

}  // namespace tenon
