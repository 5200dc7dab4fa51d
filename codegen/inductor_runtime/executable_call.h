// One call of an executable, for the sources that run it.
#pragma once

#include "executable.h"
#include "memory.h"

namespace inductor {

/// Kernels take it for granted of outputs.
inline void require_aligned(const void* output) {
  if (reinterpret_cast<uintptr_t>(output) % 64 != 0)
    throw tenon::plugin::error(TN_INTERNAL, "the host's memory for an output is not aligned");
}

/// Memory and tables of one call at a time.
struct Executable::Context {
  struct OutputShape {
    loopir::Id buffer;
    int32_t dtype;
    std::vector<int64_t> sizes, strides;
  };
  std::vector<void*> pointers;  // by buffer
  Memory arena;
  std::vector<Memory> blocks;  // of single buffers, where nothing is planned
  std::vector<int64_t> room;   // by buffer: its bytes in the arena
  std::vector<int64_t> sizes;  // the values of those symbols that memory depends on
  bool is_placed = false;
  std::vector<OutputShape> outputs;  // for these sizes
  std::vector<int64_t> table;        // of a call's numbers, where there are more than its symbols
  std::vector<tenon::plugin::tensor> tensors;   // by buffer: outputs and what externs made
  std::vector<tenon::plugin::tensor> operands;  // of the op of the host that runs
  PackedWeights packed;

  /// Memory of the host for an output buffer, by number.
  void make_output(size_t output);
};

struct Executable::Call {
  tn_call& c;
  Context& context;
  std::shared_ptr<Prepacked> prepacked;
  std::span<const int64_t> symbols;  // the table of its numbers, which begins with those
};

}  // namespace inductor
