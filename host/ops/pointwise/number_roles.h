// What the numbers among a pointwise op's arguments are for, by the names in its schema.
#pragma once

#include "core/scalar/scalar_program.h"
#include "ops/op.h"

namespace tenon {

/// Whether it takes part in promotion; others (alpha, value, negative_slope, ...) only convert.
bool promotes(const SchemaArg& arg);

/// Whether it is a factor, which has to fit the result's dtype.
bool scales(const SchemaArg& arg);

/// Whether no element of the result is to lie beyond it.
bool bounds(const SchemaArg& arg);

/// Bit i: the program divides by input i, with a remainder.
uint32_t divisors_of(const ScalarProgram& program);

/// Whether the op rounds numbers to f16 or bf16 where it computes on such tensors, as ATen's kernels
/// for CPUs do: x + 0.1 adds the f16 that is nearest to 0.1. Other ops (mul, div, lerp, addcmul,
/// activations) take numbers as they are.
bool rounds_numbers(const Schema& op);
/// The nearest number that the dtype, f16 or bf16, holds.
double rounded_number(double number, Dtype dtype);

/// Throws UserError where a number among the `scaling` arguments does not fit a result of `dtype`,
/// an integer one.
void check_factors(const CallArgs& call, uint64_t scaling, Dtype dtype);

/// The bits of a bound among integers of a type: one that no element can reach bounds nothing, so
/// -1 is 0 for u8, not 255. It is neither infinite nor NaN.
uint64_t fitted_bound(ScalarLiteral bound, Dtype dtype);

}  // namespace tenon
