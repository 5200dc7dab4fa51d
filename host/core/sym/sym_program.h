// Symbolic conditions and values compiled to a small register program, run before each call.
#pragma once

#include "core/sym/sym_eval.h"

#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

/// Tests conditions and computes values from symbol values, without allocation; 1 to 2 ns an
/// operation. Symbols are words: the number, or the bits of a double. Overflow and division by zero
/// make a condition false. Threads: immutable once compiled.
class SymProgram {
 public:
  SymProgram() = default;
  /// `symbols` gives the order of the values of each run; every symbol used must be in it.
  static SymProgram compile(std::span<const Expr* const> symbols,
                            std::span<const Expr* const> conditions,
                            std::span<const Expr* const> outputs = {});

  /// Whether all conditions hold.
  bool check(std::span<const int64_t> symbol_values) const;
  /// Tests, then writes one word per output; false when a condition fails or a value overflows.
  bool run(std::span<const int64_t> symbol_values, std::span<int64_t> outputs) const;
  /// The first condition that fails, or -1; the number of conditions if only an output overflows.
  int failed_condition(std::span<const int64_t> symbol_values) const;

  size_t n_symbols() const { return n_symbols_; }
  size_t n_outputs() const { return output_registers_.size(); }
  size_t n_instructions() const { return code_.size(); }

  struct Instruction {
    uint16_t code, to, a, b;
    int64_t constant;
  };

 private:
  friend class SymCompiler;
  static constexpr size_t max_registers = 256;  // on the stack; larger programs allocate
  template <class F>
  auto with_registers(F use) const;
  /// The instruction that stopped, or -1.
  int execute(const int64_t* symbols, int64_t* registers) const;

  std::vector<Instruction> code_;
  std::vector<int32_t> condition_of_;  // by instruction; n_conditions for outputs
  std::vector<uint16_t> output_registers_;
  size_t n_symbols_ = 0;
  size_t n_registers_ = 0;
};

}  // namespace tenon
