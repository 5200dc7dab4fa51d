// The formulas that emit_math() chooses from, and the pieces that they share.
#pragma once

#include "vector_math_lanes.h"

#include <limits>

namespace lanes {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

// Single precision throughout: vector_math_float.cpp.
Lanes exp_f32(Lanes x);
Lanes exp2_f32(Lanes x);
Lanes log_f32(Lanes x);
Lanes sigmoid_f32(Lanes x);
Lanes tanh_f32(Lanes x);
Lanes erf_f32(Lanes x);
/// tanh(x) for |x| <= tanh_far_from and erf(x) for |x| <= erf_far_from.
Lanes tanh_near_zero(Lanes x);
Lanes erf_near_zero(Lanes x);
/// p with erf(a) = 1 - 2^p, a not negative; beyond 3.93, where erf is 1, that of 3.93.
Lanes erf_far_exponent(Lanes a);
inline constexpr double tanh_far_from = 0.625, erf_far_from = 0.93;

// Single precision, computed in double: vector_math_wide.cpp and vector_math_circle.cpp.
Lanes expm1_f32(Lanes x);
Lanes log2_f32(Lanes x);
Lanes log10_f32(Lanes x);
Lanes log1p_f32(Lanes x);
Lanes sinh_f32(Lanes x);
Lanes cosh_f32(Lanes x);
Lanes asinh_f32(Lanes x);
Lanes acosh_f32(Lanes x);
Lanes atanh_f32(Lanes x);
Lanes erfc_f32(Lanes x);
Lanes pow_f32(Lanes x, Lanes y);
Lanes sin_f32(Lanes x);
Lanes cos_f32(Lanes x);
Lanes tan_f32(Lanes x);
Lanes asin_f32(Lanes x);
Lanes acos_f32(Lanes x);
Lanes atan_f32(Lanes x);
Lanes atan2_f32(Lanes y, Lanes x);
/// log(u) of normal doubles u > 0, to 1e-11. `near_one` is u - 1 as far as that was not rounded.
Lanes log_wide(Lanes u, Lanes near_one);

// vector_math_normal.cpp: Box and Muller's pair of whole numbers below 2^53, each times 2^-53 of
// [0, 1): the number with the cosine, that with the sine, to 3e-9 of themselves.
struct NormalPair {
  Lanes cosine, sine;
};
NormalPair normal_pair(Lanes u, Lanes v);

// The same: vector_math_gamma.cpp.
Lanes lgamma_f32(Lanes x);
Lanes digamma_f32(Lanes x);
Lanes erfinv_f32(Lanes x);

// Double precision: vector_math_double.cpp.
Lanes exp_f64(Lanes x);
Lanes log_f64(Lanes x);
Lanes sigmoid_f64(Lanes x);
Lanes tanh_f64(Lanes x);
Lanes erf_f64(Lanes x);
/// exp(r) - 1 of doubles with |r| <= ln 2 / 2.
Lanes expm1_near_zero(Lanes r);
/// A positive double as m 2^k, m in [0.75, 1.5).
struct Split {
  Lanes m, k;
};
Split split_real(Lanes x);

/// x = n ln 2 + r, |r| <= ln 2 / 2, for the x whose exponential is neither 0 nor infinite. Float or
/// double. `shifted` has n modulo 2^9 (float) or 2^12 in its lowest bits as an integer.
struct ExpArgument {
  Lanes r, n, shifted;
};
ExpArgument exp_argument(Lanes x);

/// p 2^n, rounded once where it is subnormal. `negative` says where n is not above 0.
Lanes scaled(Lanes p, const ExpArgument& argument, Lanes negative);

/// 2^n for an n at which that is a normal number.
Lanes power_of_two(const ExpArgument& argument);

/// What a logarithm gives for 0, negative numbers, infinity and NaN; `result` elsewhere.
Lanes log_limits(Lanes x, Lanes result);

// Instructions for the exponent of a number: one in place of many, with the limits of exp and log
// built in. vector_math_avx512.cpp.

/// Whether the function under construction may use them on values of this type.
bool has_exponent_instructions(Lanes x);
/// p 2^n for integers n, rounded once.
Lanes scaled_at_once(Lanes p, Lanes n);
/// x = mantissa 2^exponent with the mantissa in [0.75, 1.5). For 0 and infinity the exponent is
/// infinite and the mantissa 1; for NaN and negative numbers the mantissa is NaN.
Lanes mantissa_of(Lanes x);
Lanes exponent_of(Lanes x, Lanes mantissa);

// Single precision by the special function units of NVIDIA's GPUs: vector_math_gpu.cpp.

/// Whether the module under construction is for such a GPU, and x a float of one thread.
bool has_special_function_units(Lanes x);
/// The root of a double s >= 0 to 2^-38, by the unit for 1/sqrt where there is one; of 0 it is less
/// than 1e-149.
Lanes root_by_unit(Lanes s);
Lanes exp_gpu(Lanes x);
Lanes exp2_gpu(Lanes x);
Lanes sigmoid_gpu(Lanes x);
Lanes tanh_gpu(Lanes x);
Lanes erf_gpu(Lanes x);
// Of results that are rounded to 16 bits.
Lanes exp_gpu_narrow(Lanes x);
Lanes exp2_gpu_narrow(Lanes x);
Lanes sigmoid_gpu_narrow(Lanes x);
Lanes tanh_gpu_narrow(Lanes x);
Lanes quotient_gpu_narrow(Lanes x, Lanes y);

}  // namespace lanes
