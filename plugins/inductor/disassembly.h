// The code of kernels as text, for describe().
#pragma once

#include <inductor_runtime/linked_code.h>

#include <span>
#include <string>

namespace inductor {

/// A line for each instruction, in Intel's syntax, behind the kernel's name. Threads: any.
std::string disassembled(std::span<const NamedKernel> kernels);

}  // namespace inductor
