// Images by LLVM's code generator for this processor, loaded by its linker.
#include "simt_code.h"

#include <inductor_cuda/emit/helpers.h>
#include <inductor_cuda/image.h>
#include <tenon/plugin.hpp>

#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Support/TargetSelect.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <mutex>

namespace simt {

using inductor_cuda::EmitModule;
using inductor_cuda::IrModule;

namespace {

void require(bool holds, const std::string& what) {
  if (!holds) throw tenon::plugin::error(TN_INTERNAL, "PTX: " + what);
}

/// What holds for every kernel: the text is the same each time, and no thread has arrays in memory.
void check_ptx(const EmitModule& emit) {
  for (const char* arch : {"sm_75", "sm_80", "sm_90"}) {
    std::string ptx = inductor_cuda::compile_to_ptx(emit(arch), arch);
    require(ptx.find(".visible .entry") != std::string::npos, "there is no kernel");
    require(ptx.find(std::string(".target ") + arch) != std::string::npos, "another target");
    require(ptx.find(".local") == std::string::npos, "a thread has an array in memory\n" + ptx);
    if (std::string_view(arch) == "sm_90")
      require(ptx == inductor_cuda::compile_to_ptx(emit(arch), arch), "another text each time");
  }
}

std::unique_ptr<llvm::TargetMachine> host_machine() {
  auto builder = llvm::orc::JITTargetMachineBuilder::detectHost();
  if (!builder) throw std::runtime_error(llvm::toString(builder.takeError()));
  auto machine = builder->setRelocationModel(llvm::Reloc::PIC_).createTargetMachine();
  if (!machine) throw std::runtime_error(llvm::toString(machine.takeError()));
  return std::move(*machine);
}

void start_llvm() {
  static const bool once = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return true;
  }();
  (void)once;
}

/// The calls of SimtThread::barrier: of a thread alone, for nothing.
bool is_barrier(const llvm::Instruction& i) {
  auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
  return call && !call->getCalledFunction() && call->arg_size() == 1 && call->getType()->isVoidTy();
}

/// For tests of the shim: each kernel without its n-th barrier.
void drop_barrier(llvm::Module& module, int64_t n) {
  for (llvm::Function& f : module) {
    int64_t seen = 0;
    for (llvm::BasicBlock& block : f)
      for (auto at = block.begin(); at != block.end();) {
        llvm::Instruction& i = *at++;
        if (is_barrier(i) && seen++ == n) i.eraseFromParent();
      }
  }
}

std::string image(const EmitModule& emit) {
  static const bool checks = std::getenv("SIMT_CHECKS_PTX") != nullptr;
  if (checks) check_ptx(emit);
  if (const char* file = std::getenv("SIMT_KEEPS_PTX"))
    std::ofstream(file, std::ios::app) << inductor_cuda::compile_to_ptx(emit("sm_90"), "sm_90");
  start_llvm();
  IrModule ir = emit("simt");
  inductor_cuda::add_helpers(*ir.module);
  if (const char* n = std::getenv("SIMT_DROPS_BARRIER")) drop_barrier(*ir.module, std::atoll(n));
  inductor_cuda::require_well_formed(*ir.module);
  auto machine = host_machine();
  return inductor_cuda::generate(std::move(ir), *machine, llvm::CodeGenFileType::ObjectFile);
}

llvm::orc::LLJIT& linker() {
  static auto& one = *[] {
    start_llvm();
    auto made = llvm::orc::LLJITBuilder().create();
    if (!made) throw std::runtime_error(llvm::toString(made.takeError()));
    return made->release();
  }();
  return one;
}

}  // namespace

void make_images() { inductor_cuda::simt_image = image; }

struct LoadedImage::Library {
  llvm::orc::JITDylib* symbols;
};

LoadedImage::LoadedImage(std::string_view bytes) : library_(new Library) {
  static std::atomic<int> number = 0;
  auto require = [](llvm::Error problem) {
    if (problem) throw std::runtime_error(llvm::toString(std::move(problem)));
  };
  auto made = linker().createJITDylib("image " + std::to_string(number++));
  if (!made) throw std::runtime_error(llvm::toString(made.takeError()));
  library_->symbols = &*made;
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(bytes.data(), bytes.size()));
  require(linker().addObjectFile(*library_->symbols, std::move(buffer)));
}

LoadedImage::~LoadedImage() {
  llvm::consumeError(linker().getExecutionSession().removeJITDylib(*library_->symbols));
}

void* LoadedImage::find(const std::string& symbol) const {
  auto found = linker().lookup(*library_->symbols, symbol);
  if (found) return found->toPtr<void*>();
  llvm::consumeError(found.takeError());
  return nullptr;
}

SimtKernel LoadedImage::kernel(const std::string& name) const {
  return reinterpret_cast<SimtKernel>(find(name));
}
const SimtFacts* LoadedImage::facts(const std::string& name) const {
  return static_cast<const SimtFacts*>(find(name + "_facts"));
}

}  // namespace simt
