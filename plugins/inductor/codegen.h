// A kernel as LLVM IR.
//
//   int32_t kernel(void* const* buffers, const int64_t* symbols, int64_t begin, int64_t end,
//                  void* scratch)
//
// runs units [begin, end) of the kernel on the calling thread; 0, or 1 where an index that is data
// was out of range (nothing is read or written out of bounds then; results are unspecified).
#pragma once

#include <inductor_runtime/kernel_interface.h>

#include <loopir/kernel.h>

#include <llvm/IR/Module.h>

#include <string>

namespace inductor {

/// All of it, as a part of keys.
std::string text_of(const CodeOptions& options);

KernelInterface interface_of(loopir::Program& program, const loopir::Nest& nest,
                             const CodeOptions& options);

/// Everything that decides about a kernel's code, as text: kernels of equal keys are the same code,
/// called with other pointers. `interface` gives the order of the buffers.
std::string key_of(loopir::Program& program, const loopir::Nest& nest,
                   const KernelInterface& interface, const CodeOptions& options);

/// Adds the function to the module. Throws `declined` for what has no code.
void emit_kernel(llvm::Module& module, loopir::Program& program, const loopir::Nest& nest,
                 const KernelInterface& interface, const CodeOptions& options);

/// Lanes of the widest vector for the kernel's computing.
int64_t lanes_for(const loopir::Program& program, const loopir::Kernel& kernel,
                  const CodeOptions& options);

}  // namespace inductor
