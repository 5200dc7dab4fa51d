// Constants of scalar programs: conversion to a type and folding by the kernels themselves.
#pragma once

#include "core/kernels/block_kernels.h"
#include "core/scalar/scalar_program.h"

namespace tenon {

/// The table index of a computing dtype; InternalError for the others.
BlockType block_type(Dtype dtype);

/// The element of `compute` that a number becomes, in the low bytes.
uint64_t constant_bits(ScalarLiteral value, Dtype compute);

/// Whether the primitive has a kernel for operands of `compute`.
bool has_kernel(ScalarCode code, Dtype compute);

/// The value of a primitive, which has a kernel, whose operands are constants of `compute`, and
/// whose result is one too.
ScalarLiteral fold_constant(ScalarCode code, Dtype compute, const ScalarLiteral* operands);

}  // namespace tenon
