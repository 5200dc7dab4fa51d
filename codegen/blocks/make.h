// From the loops of a kernel to code for blocks.
//
// Problem: a kernel is a nest of loops over expressions; to interpret it element by element costs
//   some 5 ns an operation.
// Model: as for machine code (Lanes of a vector), but a vector has hundreds of lanes, and an
//   instruction is a call of a loop that the compiler vectorised. Each value and index is computed
//   once, in the outermost loop in which all that it depends on is known.
// Method: one walk over the stages emits steps into the bodies of the open loops; registers get
//   memory afterwards, by their lifetimes, so that what is in use stays in the first cache.
// Cost: about 5 ns for a step over a block, 2 ns for one over a number.
#pragma once

#include "code.h"

#include <inductor_runtime/kernel_interface.h>

namespace blocks {

struct Made {
  Code code;
  inductor::KernelInterface interface;
  bool is_tiled = false;  // a unit is a block over several variables
};

/// The lanes that make_nest() is to count with, and the most that a block has.
int64_t lanes_for(const loopir::Program& program, const loopir::Kernel& kernel);

/// Throws `declined` for what blocks do not compute.
Made make_code(loopir::Program& program, const loopir::Nest& nest);

}  // namespace blocks
