// Elementary functions as LLVM IR on explicit vectors: what a kernel inlines in place of a call.
//
//   llvm::Value* y = emit_math(builder, TN_F_ERF, x);    // x: float, double, or a vector of them
//
// Bounds hold for every finite argument; tests/plugins/inductor/vector_math_test.cpp asserts them.
// Infinities, NaN, signed zeros and subnormal numbers give what <cmath> gives, and TN_F_SIGMOID,
// TN_F_ERFINV, TN_F_LGAMMA and TN_F_DIGAMMA what the host's scalar primitives give. A width does
// not change a bit of a result. All functions are pure and may be called by any thread on builders
// of its own.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <span>
#include <utility>

namespace lanes {

/// IR for the scalar primitive `code` (TN_F_EXP and so on, see <tenon/plugin.h>) on float or double
/// values, a scalar or a vector of fixed length. `b` inserts at its point; its block is not split.
/// Two operands, of one type, for TN_F_POW and TN_F_ATAN2 only. Instructions carry no fast-math
/// flags, whatever `b` has set. A function whose attribute "target-features" has +avx512f gets
/// the exponent instructions of that set; results are the same, exp, log and their kin are faster.
/// In a module for NVIDIA's GPUs exp, exp2, sigmoid, tanh and erf of floats use the special function
/// units: other bits, at most 4 ulp off, and 5e-5 of its size where the result `is_narrow`, a number
/// of 16 bits.
llvm::Value* emit_math(llvm::IRBuilderBase& b, uint16_t code, llvm::Value* x,
                       llvm::Value* y = nullptr, bool is_narrow = false);

/// x / y, floats whose quotient is rounded to 16 bits next: in a module for NVIDIA's GPUs to 2 units of
/// the last place, else as IEEE 754 says.
llvm::Value* emit_narrow_quotient(llvm::IRBuilderBase& b, llvm::Value* x, llvm::Value* y);

/// Normal numbers of Box and Muller: `u` and `v` are whole numbers below 2^53, as doubles, that stand
/// for multiples of 2^-53. The first result has the cosine, the second the sine; both to 3e-9, since
/// they are rounded to a float.
std::pair<llvm::Value*, llvm::Value*> emit_normal_pair(llvm::IRBuilderBase& b, llvm::Value* u,
                                                       llvm::Value* v);

/// Whether emit_math() takes `code`.
bool is_math(uint16_t code);

/// The cost of a vector of floats in plain arithmetic instructions, measured, for decisions on
/// fusion; functions that are called lane by lane cost thousands. 0 for codes that are not taken.
int math_cost(uint16_t code);

}  // namespace lanes
