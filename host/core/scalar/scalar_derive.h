// Derivatives of scalar programs: reverse mode over a program gives a program.
#pragma once

#include "core/scalar/scalar_program.h"

#include <optional>

namespace tenon {

/// A program that computes the gradient of one input. Its inputs are what `reads` names, counted
/// through: the gradients of the results first, then the inputs, then the results of the program
/// that was differentiated. Input 0 is always a gradient.
struct ScalarDerivative {
  ScalarProgram program;
  std::vector<uint32_t> reads;
};

/// The derivative by input `wrt`, a value of the compute type. Bit i of `tensors` is set where
/// input i is an element of a tensor; the others are numbers, which matters at ties: equal operands
/// of min and max share the gradient, a number gets none of it. Reads results in the place of
/// inputs where that makes the program shorter and keeps no more values. Nothing, when a primitive
/// has no derivative within the primitives (digamma).
std::optional<ScalarDerivative> derive(const ScalarProgram& program, uint32_t wrt,
                                       uint32_t tensors);

}  // namespace tenon
