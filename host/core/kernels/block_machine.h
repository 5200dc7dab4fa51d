// Runs the steps of a bound program on one block of elements after the other.
#pragma once

#include "core/kernels/pointwise_loop.h"

#include <cstddef>
#include <memory>

namespace tenon {

/// Scratch memory, pointers and flags of one thread's pass over some blocks.
///
/// For each block: set the source of every input with one of `read_*`, call `compute`, then `write`
/// each output. Inputs are read in place when they are dense and of the type that is asked for.
class BlockMachine {
 public:
  BlockMachine(const BoundProgram& plan, std::span<const Operand> outs,
               std::span<const Operand> ins);

  /// Input i is one value for this block, at `from`; it must be so for every block.
  void read_single(size_t i, const void* from) {
    Value& value = values_[i];
    ConvertFn convert = inputs_[i].convert;
    if (convert != nullptr) convert(&value.cell, from, 1);
    value.at = convert != nullptr ? &value.cell : from;
    single_[i] = true;
  }
  /// Input i is n elements at `from`, one after the other.
  void read_dense(size_t i, const void* from, int64_t n) {
    const Input& input = inputs_[i];
    if (input.convert != nullptr) input.convert(input.scratch, from, n);
    values_[i].at = input.convert != nullptr ? input.scratch : from;
  }
  /// Where n gathered elements of input i are to be put; then call `read_dense` on it.
  void* raw_scratch(size_t i) { return inputs_[i].raw; }

  /// Fixes which values are one for the whole block, after the first block's inputs are set.
  /// Computes those that depend on numbers only, and leaves out the steps of arms that a number
  /// rules out.
  void find_singles();

  /// Runs the steps. `direct`: memory of the output that the last step may write, or null.
  void compute(int64_t n, void* direct);
  /// Whether the last step can write output i itself.
  bool writes_directly(size_t i) const {
    return static_cast<int>(i) == plan_.direct_output && outputs_[i].convert == nullptr &&
           !single_[plan_.outputs[i].value];
  }
  /// Stores n elements of output i one after the other.
  void write_dense(size_t i, void* to, int64_t n);
  /// The same into scratch, for what is scattered.
  void* write_scratch(size_t i, int64_t n) {
    std::byte* scratch = blocks_ + plan_.n_slots * block_bytes;
    write_dense(i, scratch, n);
    return scratch;
  }

 private:
  struct Value {
    const void* at;  ///< where this block's elements lie
    uint64_t cell;   ///< a computed single value lies here
  };
  struct Input {
    ConvertFn convert;
    std::byte *scratch, *raw;
  };
  struct Output {
    ConvertFn convert;
    int64_t itemsize;
  };
  static constexpr size_t block_bytes = static_cast<size_t>(block_size) * 8;

  // What most calls need, uninitialised on the stack; larger ones have one allocation.
  struct Inline {
    static constexpr size_t n_values = 32, n_inputs = 8, n_outputs = 4, n_blocks = 12;
    alignas(64) std::byte blocks[n_blocks * block_bytes];
    Value values[n_values];
    Input inputs[n_inputs];
    Output outputs[n_outputs];
    bool single[n_values], fixed[n_values], needed[n_values];
    uint16_t active[n_values];
  };

  void find_memory(size_t n_values, size_t n_blocks);
  void run_step(size_t step, int64_t n);
  bool reads(const BoundProgram::Step& step, int operand) const;
  void find_active();

  const BoundProgram& plan_;
  std::byte* blocks_;
  Value* values_;
  Input* inputs_;
  Output* outputs_;
  bool *single_, *fixed_;  // one for the block; one for all blocks, and known
  bool* needed_;           // for an output
  uint16_t* active_;       // steps that each block runs
  size_t n_active_ = 0;
  std::unique_ptr<std::byte[]> heap_;
  Inline inline_;
};

}  // namespace tenon
