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
#include <llvm/TargetParser/X86TargetParser.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/Mem2Reg.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <set>

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

/// Options for a processor with these features.
CodeOptions with_features(std::string cpu, const std::set<std::string>& features) {
  CodeOptions out;
  out.cpu = std::move(cpu);
  for (const std::string& f : features) out.features += (out.features.empty() ? "+" : ",+") + f;
  bool is_avx512 = features.contains("avx512vl"), is_avx2 = features.contains("avx2");
  out.vector_bits = is_avx512 ? 512 : is_avx2 ? 256 : 128;
  return out;
}

const std::set<std::string>& native_features() {
  static const auto& features = *[] {
    auto* made = new std::set<std::string>;
    for (const auto& feature : llvm::sys::getHostCPUFeatures())
      if (feature.second) made->insert(feature.first().str());
    return made;
  }();
  return features;
}

const CodeOptions& native_options() {
  static const auto& options =
      *new CodeOptions(with_features(llvm::sys::getHostCPUName().str(), native_features()));
  return options;
}

// "64bit", "x87" and "cx8" are not in the list of what a processor has.
bool is_here(const std::string& feature) {
  llvm::StringMap<bool> all = llvm::sys::getHostCPUFeatures();
  return !all.contains(feature) || all[feature];
}

CodeOptions options_for(const std::string& cpu) {
  using tenon::plugin::text;
  llvm::SmallVector<llvm::StringRef> names, features;
  llvm::X86::fillValidCPUArchList(names, true);
  if (std::find(names.begin(), names.end(), llvm::StringRef(cpu)) == names.end())
    throw error(TN_INVALID_ARGUMENT,
                text("option cpu: LLVM knows no processor '{}'; expected \"native\" or a name such "
                     "as \"x86-64-v3\" or \"{}\", which this machine is",
                     cpu, native_options().cpu));
  llvm::X86::getFeaturesForCPU(cpu, features);
  std::set<std::string> wanted;
  for (llvm::StringRef f : features) {
    if (!is_here(f.str()))
      throw error(TN_INVALID_ARGUMENT, text("option cpu: {} has {}, which this machine's {} lacks",
                                            cpu, f.str(), native_options().cpu));
    wanted.insert(f.str());
  }
  return with_features(cpu, wanted);
}

void require_bits(int64_t bits, unsigned most) {
  bool is_width = bits == 0 || bits == 128 || bits == 256 || bits == 512;
  if (!is_width || bits > most)
    throw error(TN_INVALID_ARGUMENT,
                tenon::plugin::text("option simdlen is {}; expected 0 (the widest), 128, 256 or "
                                    "512, and {} at most on this processor",
                                    bits, most));
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
  builder.setCPU(native_options().cpu);  // functions say for themselves what they are for
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

CodeOptions code_options(std::string_view cpu, int64_t vector_bits) {
  CodeOptions out = cpu == "native" ? native_options() : options_for(std::string(cpu));
  require_bits(vector_bits, out.vector_bits);
  if (vector_bits) out.vector_bits = unsigned(vector_bits);
  return out;
}

std::string fingerprint() {
  const CodeOptions& o = native_options();
  return tenon::plugin::text("llvm {} cpu {} features {}", LLVM_VERSION_STRING, o.cpu, o.features);
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
