// Exponents whose powers are products, roots and quotients, as in PyTorch; Recorder has the rules.
#pragma once

#include "core/scalar/scalar_program.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <vector>

namespace tenon {

/// A number for each such exponent, 0 for others.
inline uint8_t simple_power(double exponent) {
  constexpr double simple[] = {2, 3, 0.5, -0.5, -1, -2};
  const double* found = std::ranges::find(simple, exponent);
  return found == std::end(simple) ? uint8_t{0} : static_cast<uint8_t>(1 + (found - simple));
}

/// The input that exponents are made of, such as b of b - 1, where there is one: 1 << i, else 0.
inline uint32_t exponent_of(const ScalarProgram& program) {
  std::vector<uint32_t> made_of;  // by value: bits of inputs
  for (uint32_t i = 0; i < program.n_inputs; ++i) made_of.push_back(1u << i);
  uint32_t inputs = 0;
  for (const ScalarInstr& step : program.instr) {
    const uint32_t operands[] = {step.a, step.b, step.c};
    int n = step.op() == ScalarCode::constant ? 0 : info_of(step.op()).operands;
    uint32_t bits = 0;
    for (int k = 0; k < n; ++k) bits |= made_of[operands[k]];
    if (step.op() == ScalarCode::pow) inputs |= made_of[step.b];
    made_of.push_back(bits);
  }
  return std::has_single_bit(inputs) ? inputs : 0;
}

}  // namespace tenon
