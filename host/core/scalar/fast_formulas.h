// Formulas that are compiled as one loop for f32, once for each CPU level.
//
// The blocks of the interpreter (block_machine.h) take a pass through the first cache for every
// primitive; of formulas that are common in eager code and have several cheap primitives, that is
// most of the time. These stand here once: rows record them as any other formula, block_fast.inc
// compiles them, and binding takes the loop where a program is one of them (pointwise_bind.cpp).
// Both run the same routines in the same order, so results agree bit for bit.
//
// Included by files that are compiled with the options of a level, so no inline functions here.
#pragma once

namespace tenon::fast {

inline constexpr auto relu = [](auto x) { return select(x < 0, 0, x); };
inline constexpr auto leaky_relu = [](auto x, auto slope) { return select(x > 0, x, x * slope); };
inline constexpr auto relu6 = [](auto x) { return select(x < 0, 0, select(x > 6, 6, x)); };
inline constexpr auto hardsigmoid = [](auto x) { return min(max(x + 3, 0), 6) / 6; };
inline constexpr auto hardtanh = [](auto x, auto lo, auto hi) {
  auto above = select(x < lo, lo, x);
  return select(above > hi, hi, above);  // hi wins where the bounds are the wrong way round
};
inline constexpr auto gelu = [](auto x) { return x * 0.5 * (1 + erf(x * 0.70710678118654752440)); };
inline constexpr auto gelu_tanh = [](auto x) {
  return x * 0.5 * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
};
inline constexpr auto hardswish = [](auto x) { return x * min(max(x + 3, 0), 6) / 6; };
inline constexpr auto lerp = [](auto x, auto end, auto w) {
  return select(abs(w) < 0.5, x + w * (end - x), end - (end - x) * (1 - w));
};
inline constexpr auto threshold_backward = [](auto g, auto x, auto threshold) {
  return select(x <= threshold, 0, g);
};
inline constexpr auto sigmoid_backward = [](auto g, auto y) { return g * (y * (1 - y)); };
inline constexpr auto tanh_backward = [](auto g, auto y) { return g * (1 - y * y); };

}  // namespace tenon::fast

// X(name, number of inputs, bit mask of those that are numbers as a rule)
#define TENON_FAST_FORMULAS(X) \
  X(relu, 1, 0)                \
  X(leaky_relu, 2, 2)          \
  X(hardtanh, 3, 6)            \
  X(relu6, 1, 0)               \
  X(hardsigmoid, 1, 0)         \
  X(gelu, 1, 0)                \
  X(gelu_tanh, 1, 0)           \
  X(hardswish, 1, 0)           \
  X(lerp, 3, 4)                \
  X(threshold_backward, 3, 4)  \
  X(sigmoid_backward, 2, 0)    \
  X(tanh_backward, 2, 0)
