// LLVM for this process: modules to object code.
#pragma once

#include "codegen.h"

#include <llvm/IR/LLVMContext.h>

#include <memory>
#include <string>
#include <string_view>

namespace inductor {

/// Code for this machine: for the processor `cpu` ("native": the one that it has, else LLVM's name
/// of one that has no more), in vectors of `vector_bits` at most (0: the widest). Throws `error`
/// (TN_INVALID_ARGUMENT) for what cannot run here.
CodeOptions code_options(std::string_view cpu, int64_t vector_bits);
/// Who makes object code: "llvm 19.1.7".
std::string maker();
/// What makes object code for this machine useless elsewhere: its maker, processor, features.
std::string fingerprint();

/// Throws `error` where a function is not valid LLVM IR, which would end in the code generator.
void require_well_formed(const llvm::Module& module, const std::string& function);

struct IrModule {
  std::unique_ptr<llvm::LLVMContext> context = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> module = std::make_unique<llvm::Module>("kernels", *context);
};

/// Optimises the module and gives its relocatable object. Throws `error` where LLVM has no code for
/// it; some memory is lost then. Threads: any.
std::string compile_to_object(IrModule module, int effort);

}  // namespace inductor
