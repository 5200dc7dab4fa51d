// How a kernel is called, whoever made its code.
#pragma once

#include <loopir/kernel.h>

#include <map>
#include <memory>
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

/// A kernel that is not machine code. Threads: any.
class KernelBody {
 public:
  virtual ~KernelBody() = default;
  virtual uint32_t run(void* const* buffers, const int64_t* symbols, int64_t begin, int64_t end,
                       void* scratch) const = 0;
};

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

/// Its buffers, with rows of the kernel's own in scratch memory; the width is known.
void add_buffers(loopir::Program& program, const loopir::Nest& nest, KernelInterface& out);
/// How many units there are: rows, or blocks of lanes where those are all there is.
loopir::Id units_of(loopir::Program& program, const loopir::Nest& nest, int64_t width);

}  // namespace inductor
