// ORC and the code generator. Code is made as a relocatable object first, so that what is linked
// now and what a cache gives later are the same bytes; names are looked up in a table of ours only.
#include "jit.h"

#include "lane_ops.h"

#include <tenon/plugin.hpp>

#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/Mem2Reg.h>

#include <atomic>
#include <cstring>
#include <mutex>

namespace inductor {

namespace orc = llvm::orc;
using tenon::plugin::error;

namespace {

[[noreturn]] void fail(int32_t code, llvm::Error e) {
  throw error(code, "LLVM: " + llvm::toString(std::move(e)));
}
template <class T>
T take(llvm::Expected<T> value, int32_t code = TN_INTERNAL) {
  if (!value) fail(code, value.takeError());
  if constexpr (std::is_reference_v<T>)
    return *value;
  else
    return std::move(*value);
}

void start_llvm() {
  static const bool once = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return true;
  }();
  (void)once;
}

/// Target machines are not shared between threads and take a while to make.
llvm::TargetMachine& target_machine(int effort) {
  thread_local std::unique_ptr<llvm::TargetMachine> machines[2];
  auto& machine = machines[effort > 0];
  if (machine) return *machine;
  start_llvm();
  orc::JITTargetMachineBuilder builder(llvm::Triple(llvm::sys::getProcessTriple()));
  builder.setCPU(host_options().cpu);
  builder.setRelocationModel(llvm::Reloc::PIC_);
  builder.setCodeModel(llvm::CodeModel::Small);
  builder.setCodeGenOptLevel(effort > 0 ? llvm::CodeGenOptLevel::Default
                                        : llvm::CodeGenOptLevel::None);
  builder.getOptions().AllowFPOpFusion = llvm::FPOpFusion::Standard;
  machine = take(builder.createTargetMachine());
  return *machine;
}

void optimise(llvm::Module& module, llvm::TargetMachine& machine, int effort) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  if (effort >= 2) {
    builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
    return;
  }
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::PromotePass());
  passes.addPass(llvm::EarlyCSEPass(true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::ADCEPass());
  for (llvm::Function& f : module)
    if (!f.isDeclaration()) passes.run(f, functions);
}

orc::LLJIT& jit() {
  static orc::LLJIT& one = *[] {
    start_llvm();
    auto made = take(
        orc::LLJITBuilder()
            .setLinkProcessSymbolsByDefault(false)
            .setPlatformSetUp(orc::setUpInactivePlatform)
            .setObjectLinkingLayerCreator([](orc::ExecutionSession& session, const llvm::Triple&) {
              return std::make_unique<orc::ObjectLinkingLayer>(session);
            })
            .create());
    return made.release();
  }();
  return one;
}

orc::SymbolMap runtime_symbols() {
  orc::SymbolMap out;
  auto add = [&](const char* name, void* address) {
    out[jit().mangleAndIntern(name)] = {orc::ExecutorAddr::fromPtr(address),
                                        llvm::JITSymbolFlags::Exported};
  };
  for (const RuntimeSymbol& s : math_symbols()) add(s.name, s.address);
  for (const RuntimeSymbol& s : primitive_symbols()) add(s.name, s.address);
  add("memset", reinterpret_cast<void*>(&std::memset));
  add("memcpy", reinterpret_cast<void*>(&std::memcpy));
  add("memmove", reinterpret_cast<void*>(&std::memmove));
  return out;
}

}  // namespace

const CodeOptions& host_options() {
  static const CodeOptions& options = *[] {
    auto* made = new CodeOptions;
    made->cpu = llvm::sys::getHostCPUName().str();
    bool has_avx512 = false, has_avx2 = false;
    for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
      if (!feature.second) continue;
      made->features += (made->features.empty() ? "+" : ",+") + feature.first().str();
      has_avx512 |= feature.first() == "avx512vl";
      has_avx2 |= feature.first() == "avx2";
    }
    made->vector_bits = has_avx512 ? 512 : has_avx2 ? 256 : 128;
    return made;
  }();
  return options;
}

std::string fingerprint() {
  const CodeOptions& o = host_options();
  return tenon::plugin::text("llvm {} cpu {} features {} bits {}", LLVM_VERSION_STRING, o.cpu,
                             o.features, o.vector_bits);
}

std::string compile_to_object(llvm::Module& module, int effort) {
  llvm::TargetMachine& machine = target_machine(effort);
  module.setDataLayout(machine.createDataLayout());
  module.setTargetTriple(machine.getTargetTriple().str());
  std::string problem;
  llvm::raw_string_ostream out(problem);
  if (llvm::verifyModule(module, &out))
    throw error(TN_INTERNAL, "generated code is malformed: " + problem);
  if (effort > 0) optimise(module, machine, effort);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream object(bytes);
  llvm::legacy::PassManager codegen;
  if (machine.addPassesToEmitFile(codegen, object, nullptr, llvm::CodeGenFileType::ObjectFile))
    throw error(TN_INTERNAL, "LLVM cannot write object code for this processor");
  codegen.run(module);
  return {bytes.begin(), bytes.end()};
}

struct LinkedCode::Impl {
  orc::JITDylib* library;
};

LinkedCode::LinkedCode(std::vector<std::string> objects) : impl_(std::make_unique<Impl>()) {
  static std::atomic<uint64_t> count{0};
  impl_->library = &take(jit().createJITDylib("graph" + std::to_string(count++)));
  if (auto e = impl_->library->define(orc::absoluteSymbols(runtime_symbols())))
    fail(TN_INTERNAL, std::move(e));
  for (const std::string& object : objects) {
    auto buffer = llvm::MemoryBuffer::getMemBufferCopy(object, "kernels");
    if (auto e = jit().addObjectFile(*impl_->library, std::move(buffer)))
      fail(TN_DATA_LOSS, std::move(e));
  }
}

LinkedCode::~LinkedCode() {
  llvm::consumeError(jit().getExecutionSession().removeJITDylib(*impl_->library));
}

KernelFunction LinkedCode::find(const std::string& symbol) const {
  return take(jit().lookup(*impl_->library, symbol), TN_DATA_LOSS).toPtr<KernelFunction>();
}

}  // namespace inductor
