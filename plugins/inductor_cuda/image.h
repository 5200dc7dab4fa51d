// Kernels as what a device loads: PTX text, or an object for the architecture "simt".
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace inductor_cuda {

struct IrModule {
  std::unique_ptr<llvm::LLVMContext> context = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> module = std::make_unique<llvm::Module>("kernels", *context);
};
/// The kernels for an architecture.
using EmitModule = std::function<IrModule(std::string_view arch)>;

/// LLVM's name of the newest GPU that it has code for and that a device of this architecture runs.
/// Throws `declined` for one that is older than all of them.
std::string processor_of(std::string_view arch);
/// Throws `error` where a module is malformed or LLVM has no code for it. Threads: any.
std::string compile_to_ptx(IrModule module, std::string_view arch);
/// What a device of this architecture loads. "simt" is for who has set `simt_image`.
std::string image_of(const EmitModule& emit, std::string_view arch);
extern std::string (*simt_image)(const EmitModule& emit);

// ---- for who makes images of other kinds

/// Throws `error` for malformed IR.
void require_well_formed(const llvm::Module& module);
/// The short list of passes that kernels need.
void optimise(llvm::Module& module, llvm::TargetMachine& machine);
/// The module's code, as text or as an object. On the way LLVM's fatal errors are thrown.
std::string generate(IrModule module, llvm::TargetMachine& machine, llvm::CodeGenFileType type);
/// What makes images useless elsewhere.
std::string fingerprint();

}  // namespace inductor_cuda
