// What one call of an executable works on.
#pragma once

#include "executable.h"

#include <llvm/ADT/SmallVector.h>
#include <loopir/memory.h>

namespace inductor_cuda {

/// One version of a kernel for some sizes.
struct Executable::Launch {
  int64_t blocks = 0, units = 0;
  bool fits = false;     // all that the sizes say; addresses are asked at the call
  int64_t scratch = -1;  // where its own rows lie in the arena
};

struct Executable::Plan {
  struct OutputShape {
    Id buffer;
    std::vector<int64_t> sizes, strides;
  };
  std::vector<int64_t> sizes;    // for which it is made
  std::vector<int64_t> offsets;  // by buffer, in the arena; -1: not there
  int64_t arena_bytes = 0;
  std::vector<std::vector<Launch>> launches;                      // by item, by version
  std::map<size_t, std::shared_ptr<const ProductPlan>> products;  // by item
  std::vector<int64_t> workspaces;  // by branch: where that of libraries lies in the arena
  std::vector<OutputShape> outputs;
};

struct Executable::Call {
  tn_call& c;
  std::span<const int64_t> table;  // of numbers
  std::shared_ptr<const Plan> plan = nullptr;
  // What most ops of an eager program have room in: the heap would take a tenth of a call.
  static constexpr unsigned few = 12;
  llvm::SmallVector<void*, few> pointers = {};                 // by buffer
  llvm::SmallVector<tenon::plugin::tensor, few> tensors = {};  // by buffer: outputs, and of externs
  tenon::plugin::tensor arena = {};
  std::vector<tenon::plugin::tensor> kept = {};  // until the end: other branches may run beside it
};

}  // namespace inductor_cuda
