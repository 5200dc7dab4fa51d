// exp, exp2, sigmoid, tanh and erf in single precision for NVIDIA's GPUs.
//
// Problem: 8 to 25 instructions a number and no branch, where the formulas of vector_math_float.cpp
//   take 15 to 60: a division rounded as IEEE 754 says is a routine with a branch, and a kernel
//   over two numbers of 16 bits is otherwise bound by its arithmetic instead of by memory.
// Method: the special function units give 2^r to 2^-22 (ex2.approx) and 1/x to 1 ulp (rcp.approx)
//   in one instruction, four cycles a warp. exp(x) = 2^n 2^r with x log2(e) = n + r, log2(e) in two
//   parts. n is held between -126 and 127, so that 2^n is a normal number; what is beyond stays in
//   r, whose 2^r becomes 0, infinite, or a subnormal number that is rounded once. NaN passes
//   through r. The other functions are those of vector_math_float.cpp over these.
// Error: at most 4 ulp each, which Gpu.FastFunctionsOfAllSizes asserts on a GPU.
// Narrow results: numbers of 16 bits need no reduction, since x log2(e) rounded once is 2^-17 off at
//   most, and tanh no polynomial near 0, where 2 / (e + 1) is 2e-7 off. They are right to 5e-5 of
//   their size before they are rounded, a tenth of the half unit of f16 (Gpu.FastFunctionsOf16Bits).
// Reference: PTX ISA, ex2 and rcp, for the errors of the instructions.
#include "vector_math_formulas.h"

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

#include <numbers>

namespace lanes {

namespace {

namespace id = llvm::Intrinsic;

constexpr double integer_place = 0x1.8p23;  // its last place is 1
constexpr double least_normal = -126, most_normal = 127;

Lanes instruction(llvm::Intrinsic::ID which, Lanes x) {
  return x.with(x.b->CreateIntrinsic(which, {}, {x.v}));
}
Lanes reciprocal(Lanes x) { return instruction(id::nvvm_rcp_approx_ftz_f, x); }
Lanes ex2(Lanes x) { return instruction(id::nvvm_ex2_approx_f, x); }
/// Three instructions less, and 0 for subnormal results.
Lanes ex2_or_zero(Lanes x) { return instruction(id::nvvm_ex2_approx_ftz_f, x); }

/// 1.5 2^23 + n, n the integer next to what stands in the low bits, within the normal exponents.
Lanes held(Lanes shifted) {
  Lanes least = shifted.number(integer_place + least_normal);
  Lanes most = shifted.number(integer_place + most_normal);
  auto one_of = [&](llvm::Intrinsic::ID which, Lanes x, Lanes y) {
    return x.with(x.b->CreateBinaryIntrinsic(which, x.v, y.v));
  };
  return one_of(id::minnum, one_of(id::maxnum, shifted, least), most);
}

/// 2^(n + r), `shifted` = 1.5 2^23 + n.
Lanes power(Lanes shifted, Lanes r) {
  Lanes n = to_bits(shifted);
  Lanes whole = from_bits((n << 23) + n.integer(uint64_t{127} << 23));
  return ex2(r) * whole;
}

/// x, which is not negative, with the sign of `sign`: one instruction, where copysign is six.
Lanes signed_as(Lanes x, Lanes sign) {
  Lanes bits = to_bits(sign);
  return from_bits(to_bits(x) | (bits & bits.integer(0x80000000u)));
}

}  // namespace

namespace {

bool is_for_gpu(Lanes x) {
  const llvm::Module* module = x.b->GetInsertBlock()->getModule();
  return !x.type()->isVectorTy() && llvm::StringRef(module->getTargetTriple()).starts_with("nvptx");
}

}  // namespace

bool has_special_function_units(Lanes x) { return x.bits() == 32 && is_for_gpu(x); }

// The unit gives 1/sqrt to 2^-20; one step of Newton's method doubles the digits.
Lanes root_by_unit(Lanes s) {
  if (!is_for_gpu(s)) return sqrt(s);
  constexpr uint64_t half = uint64_t{1} << 52;  // less in the exponent
  Lanes above_zero = s + 0x1p-1000;
  Lanes inverse = instruction(id::nvvm_rsqrt_approx_ftz_d, above_zero);
  Lanes root = above_zero * inverse, bits = to_bits(inverse);
  return fma(fma(-root, root, above_zero), from_bits(bits - bits.integer(half)), root);
}

Lanes exp_gpu(Lanes x) {
  constexpr double log2e_high = 0x1.715476p+0, log2e_low = 0x1.4ae0bf85ddf44p-26;
  Lanes shifted = held(fma(x, log2e_high, integer_place));
  Lanes n = shifted - integer_place;
  return power(shifted, fma(x, log2e_low, fma(x, log2e_high, -n)));
}

Lanes exp2_gpu(Lanes x) {
  Lanes shifted = held(x + integer_place);
  return power(shifted, x - (shifted - integer_place));
}

Lanes sigmoid_gpu(Lanes x) {
  // Through exp(-|x|): no overflow, and the small results of x < 0 keep their digits.
  Lanes e = exp_gpu(-abs(x));
  return select(x < 0.0, e, e.number(1)) * reciprocal(e + 1.0);
}

Lanes tanh_gpu(Lanes x) {
  Lanes a = abs(x);
  Lanes far = 1.0 - reciprocal(exp_gpu(a + a) + 1.0) * 2.0;
  return signed_as(select(a >= tanh_far_from, far, tanh_near_zero(a)), x);
}

Lanes exp_gpu_narrow(Lanes x) { return ex2(x * std::numbers::log2e); }

Lanes exp2_gpu_narrow(Lanes x) { return ex2(x); }

Lanes sigmoid_gpu_narrow(Lanes x) {
  Lanes e = ex2(abs(x) * -std::numbers::log2e);
  return select(x < 0.0, e, e.number(1)) * reciprocal(e + 1.0);
}

Lanes tanh_gpu_narrow(Lanes x) {
  constexpr double is_itself_below = 0x1p-7;  // to 2e-5
  Lanes a = abs(x), e = ex2_or_zero(a * (2 * std::numbers::log2e));
  Lanes far = fma(reciprocal(e + 1.0), -2.0, 1.0);
  return select(a < is_itself_below, x, signed_as(far, x));
}

// The exact quotient is a routine with a branch; this one is right to 2 units of the last place, and
// what depends on the divisor alone is made once for all that share it.
Lanes quotient_gpu_narrow(Lanes x, Lanes y) {
  auto* type = llvm::FunctionType::get(x.type(), {x.type(), x.type()}, false);
  auto* code = llvm::InlineAsm::get(type, "div.full.f32 $0, $1, $2;", "=f,f,f", false);
  return x.with(x.b->CreateCall(type, code, {x.v, y.v}));
}

Lanes erf_gpu(Lanes x) {
  Lanes a = abs(x);
  Lanes far = 1.0 - ex2_or_zero(erf_far_exponent(a));  // 2^-24 at least
  return select(a >= erf_far_from, signed_as(far, x), erf_near_zero(x));
}

}  // namespace lanes
