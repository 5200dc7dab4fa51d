// Functions of f64 that code of CPUs calls and a GPU does not have, as code.
//
// Within a few units of the last place; lgamma within 1e-14 of an absolute error near its zeros, too.
// Infinities, NaN and signed zeros give what <cmath> gives, erfinv, lgamma and digamma what the
// host's scalar primitives give.
#pragma once

#include <lanes/vector_math_lanes.h>
#include <llvm/IR/Function.h>

#include <span>

namespace inductor_cuda {

using lanes::Lanes;

/// A function by the name under which code calls it. One of f32 is computed in f64.
struct RealFunction {
  const char* name;
  Lanes (*of_one)(Lanes x) = nullptr;
  Lanes (*of_two)(Lanes x, Lanes y) = nullptr;
};
std::span<const RealFunction> real_functions();
void define(llvm::Function& f, const RealFunction& as);

/// Their sum is pi / 2 to twice the digits.
inline constexpr double half_pi = 0x1.921fb54442d18p+0, half_pi_low = 0x1.1a62633145c07p-54;

// ---- logarithms.cpp
Lanes real_exp2(Lanes x);
Lanes real_expm1(Lanes x);
Lanes real_log1p(Lanes x);
Lanes real_log2(Lanes x);
Lanes real_log10(Lanes x);
Lanes real_sinh(Lanes x);
Lanes real_cosh(Lanes x);
Lanes real_asinh(Lanes x);
Lanes real_acosh(Lanes x);
Lanes real_atanh(Lanes x);
// ---- circle.cpp
Lanes real_sin(Lanes x);
Lanes real_cos(Lanes x);
Lanes real_tan(Lanes x);
// ---- arcs.cpp
Lanes real_asin(Lanes x);
Lanes real_acos(Lanes x);
Lanes real_atan(Lanes x);
Lanes real_atan2(Lanes y, Lanes x);
// ---- special.cpp
Lanes real_erfc(Lanes x);
Lanes real_erfinv(Lanes x);
Lanes real_lgamma(Lanes x);
Lanes real_digamma(Lanes x);

// ---- what they share
inline Lanes choose(Lanes condition, Lanes x, double y) {
  return select(condition, x, x.number(y));
}
Lanes is_nan(Lanes x);
Lanes not_a_number(Lanes like);
Lanes infinite(Lanes like);

}  // namespace inductor_cuda
