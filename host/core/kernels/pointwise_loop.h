// Runs bound scalar programs, and plain copies, over strided operands.
//
//     BoundProgram plan = bind(program, Dtype::f32, inputs);         // once for a kind of call
//     run_pointwise(plan, {{out, Dtype::f32, out_strides}}, {...}, sizes);
#pragma once

#include <tenon/dtype.h>

#include "core/kernels/block_kernels.h"
#include "core/scalar/scalar_program.h"

#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

/// Memory of one operand. Strides are in elements, one for each size of the iteration, 0 where it
/// is broadcast. `strides` null: a single value for all elements, such as a number argument.
struct Operand {
  void* data;
  Dtype dtype;
  const int64_t* strides;
};

/// What binding knows of an input: a tensor or a number of later calls, or this very number.
struct BindInput {
  bool is_constant = false;
  ScalarLiteral value{};
  static BindInput varying() { return {}; }
  static BindInput constant(ScalarLiteral v) { return {true, v}; }
};

/// An executable plan for one compute type. Immutable; any thread may run it. Values are numbered:
/// inputs, constants, one for each step.
struct BoundProgram {
  struct Step {
    BlockFn run;  ///< null for conversions
    ConvertFn convert;
    uint16_t in[3];
    uint16_t slot;  ///< of the scratch blocks, for the result
    uint8_t n_in;
    bool selects;  ///< reads one of its last two operands, by the first
  };
  struct Output {
    uint16_t value;
    Dtype dtype;
  };
  std::vector<Step> steps;
  std::vector<Dtype> input_dtypes;  ///< the type in which each input is read
  std::vector<uint64_t> constants;
  std::vector<Output> outputs;
  uint16_t n_slots = 0;
  int16_t direct_output = -1;  ///< the output that the last step may write in place
  bool is_small = false;       ///< fit for the short way of pointwise_small.h

  size_t n_inputs() const { return input_dtypes.size(); }
  size_t first_step() const { return input_dtypes.size() + constants.size(); }
};

/// `compute` is one of f32, f64, bool or an integer type; f16 and bf16 are computed in f32.
/// `inputs` empty: all vary.
BoundProgram bind(const ScalarProgram& program, Dtype compute,
                  std::span<const BindInput> inputs = {});

/// Computes every element of `outs` (which do not overlap each other, nor an input unless they are
/// the very same elements). Dtypes of operands are converted to and from those of the program.
void run_pointwise(const BoundProgram& plan, std::span<const Operand> outs,
                   std::span<const Operand> ins, std::span<const int64_t> sizes);

/// dst[i] = src[i], converted. The two do not overlap.
void copy_strided(const Operand& dst, const Operand& src, std::span<const int64_t> sizes);

/// The type in which an operand dtype is computed: f32 for f16 and bf16, else itself.
constexpr Dtype computing_dtype(Dtype dtype) {
  return dtype == Dtype::f16 || dtype == Dtype::bf16 ? Dtype::f32 : dtype;
}

}  // namespace tenon
