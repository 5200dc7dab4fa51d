// How the floating-point unit of this thread computes: rounding, what becomes of denormal numbers,
// which exceptions trap.
#pragma once

#include <cstdint>
#include <string>

namespace tenon {

/// Without the flags that operations raise. Reading it costs about a nanosecond.
struct FloatMode {
  uint64_t control = 0;  ///< of the vector unit
  uint16_t x87 = 0;
  friend bool operator==(const FloatMode&, const FloatMode&) = default;

  static FloatMode now() {
    FloatMode mode;
#if defined(__x86_64__)
    constexpr uint32_t raised = 0x3F;
    mode.control = __builtin_ia32_stmxcsr() & ~raised;
    __asm__ volatile("fnstcw %0" : "=m"(mode.x87));
#elif defined(__aarch64__)
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode.control));
#endif
    return mode;
  }
  /// Makes this the mode of the thread.
  void set() const {
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(static_cast<uint32_t>(control));
    __asm__ volatile("fldcw %0" : : "m"(x87));
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(control));
#endif
  }
};

/// What `after` does otherwise than `before`: "flushes denormal numbers to zero, rounds upwards".
std::string difference_of(const FloatMode& before, const FloatMode& after);

}  // namespace tenon
