// How a kernel is called, whoever made its code.
#pragma once

#include <loopir/expressions.h>

#include <map>
#include <string>

namespace inductor {

/// How code is made, and the processor that it is for.
struct CodeOptions {
  unsigned vector_bits = 512;
  std::string cpu, features;               // LLVM's names; features as "+avx2,+fma"
  int effort = 1;                          // 0 is quick, 2 is LLVM's O3
  bool contracts = true;                   // a product and a sum may be one instruction
  bool multiplies_by_reciprocals = false;  // in place of dividing
  bool rounds_narrow = false;              // bf16 and f16 values also where they stay in registers
  int64_t near_bytes = INT64_MAX;          // larger results are written past the caches

  /// Whether the processor has it.
  bool has(const std::string& feature) const {
    return ("," + features + ",").find(",+" + feature + ",") != std::string::npos;
  }
};

/// What a kernel returns: 0, or the sum of what went wrong.
enum KernelError : uint32_t { index_out_of_range = 1, division_by_zero = 2 };

using KernelFunction = uint32_t (*)(void* const* buffers, const int64_t* symbols, int64_t begin,
                                    int64_t end, void* scratch);

/// All but its code.
struct KernelInterface {
  std::string symbol;
  loopir::Ids buffers;              // in order of the pointers
  loopir::Id units = loopir::none;  // how many there are
  std::map<loopir::Id, int64_t> scratch_offsets;
  int64_t scratch_bytes = 0;
  unsigned width = 1;    // lanes of a block
  double cost = 0;       // of a unit, in vector instructions, roughly
  loopir::Ids streamed;  // buffers that are written past the caches
};

}  // namespace inductor
