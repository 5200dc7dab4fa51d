// A graph as an executable whose kernels are code for blocks: the compiler without a code
// generator.
#pragma once

#include <inductor_runtime/executable.h>

namespace blocks {

struct Choices {
  bool fuses = true;                 // loops, and activations with the product before them
  bool fuses_formulas_only = false;  // no reductions, scans or scatters
  bool freezes = true;               // what depends on parameters only is made once
  bool verifies = false, profiles = false;
  int64_t threads = 0;  // 0: all of the host's
};

/// Throws `declined` for what no part of it can be.
std::unique_ptr<inductor::Executable> compile(const tn_compile_request& request,
                                              const Choices& choices);

}  // namespace blocks
