// A kernel as LLVM IR: what each thread runs.
#pragma once

#include "frame.h"

namespace inductor_cuda {

/// Adds the code of the frame's plan where the builder stands, and leaves it behind that. Throws
/// `declined` for what has no code.
void emit_body(Frame& frame);

}  // namespace inductor_cuda
