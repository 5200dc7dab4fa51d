// The code generator. Code is made as a relocatable object, so that what is linked now and what a
// cache or a file gives later are the same bytes.
#include "jit.h"

#include <lanes/analyses.h>
#include <tenon/plugin.hpp>
#include <tenon/thread_object.hpp>

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/ErrorHandling.h>
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
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>

namespace inductor {

using tenon::plugin::error;

namespace {

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

void require_width(int64_t bits) {
  if (bits == 0 || bits == 128 || bits == 256 || bits == 512) return;
  throw error(
      TN_INVALID_ARGUMENT,
      tenon::plugin::text("option simdlen is {}; expected 0 (the widest), 128, 256 or 512", bits));
}

// LLVM ends the process where its code generator meets what it cannot do. On a thread that compiles
// here the handler throws instead, over frames of LLVM that have no cleanups; what they worked on
// is never touched again.
thread_local bool compiles_here = false;

void leave_llvm(void*, const char* reason, bool) {
  if (compiles_here) throw error(TN_INTERNAL, tenon::plugin::text("LLVM: {}", reason));
  std::fprintf(stderr, "LLVM ERROR: %s\n", reason);
  std::abort();
}

void start_llvm() {
  static const bool once = [] {
    llvm::install_fatal_error_handler(leave_llvm);
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return true;
  }();
  (void)once;
}

/// Target machines are not shared between threads and take a while to make.
using Machine = std::unique_ptr<llvm::TargetMachine>;
Machine& target_machine(int effort) {
  auto& machine = tenon::ThreadObject<std::array<Machine, 2>>::get()[effort > 0];
  if (machine) return machine;
  start_llvm();
  std::string triple = llvm::sys::getProcessTriple(), problem;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, problem);
  if (!target) throw error(TN_UNIMPLEMENTED, "LLVM makes no code for this processor: " + problem);
  llvm::TargetOptions how;
  how.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  auto level = effort > 0 ? llvm::CodeGenOptLevel::Default : llvm::CodeGenOptLevel::None;
  // Functions say for themselves what processor they are for.
  machine.reset(target->createTargetMachine(triple, native_options().cpu, "", how,
                                            llvm::Reloc::PIC_, llvm::CodeModel::Small, level,
                                            true));
  return machine;
}

void optimise(llvm::Module& module, llvm::TargetMachine& machine, int effort) {
  llvm::PassBuilder builder(&machine);
  lanes::Analyses analyses(builder);
  if (effort >= 2) {
    builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3)
        .run(module, analyses.modules);
    return;
  }
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::PromotePass());
  passes.addPass(llvm::EarlyCSEPass(true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::ADCEPass());
  for (llvm::Function& f : module)
    if (!f.isDeclaration()) passes.run(f, analyses.functions);
}

}  // namespace

CodeOptions code_options(std::string_view cpu, int64_t vector_bits) {
  CodeOptions out = cpu == "native" ? native_options() : options_for(std::string(cpu));
  require_width(vector_bits);
  if (vector_bits) out.vector_bits = std::min(out.vector_bits, static_cast<unsigned>(vector_bits));
  return out;
}

std::string maker() { return tenon::plugin::text("llvm {}", LLVM_VERSION_STRING); }

std::string fingerprint() {
  const CodeOptions& o = native_options();
  return tenon::plugin::text("{} cpu {} features {}", maker(), o.cpu, o.features);
}

void require_well_formed(const llvm::Module& module, const std::string& function) {
  std::string problem;
  llvm::raw_string_ostream out(problem);
  if (llvm::verifyFunction(*module.getFunction(function), &out))
    throw error(TN_INTERNAL, "generated code is malformed: " + problem);
}

namespace {

/// What LLVM works on for one module; left as it is where LLVM has stopped in the middle.
struct Work {
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream object{bytes};
  llvm::legacy::PassManager codegen;
};

void generate(Work& work, llvm::TargetMachine& machine, int effort) {
  llvm::Module& module = *work.module;
  module.setDataLayout(machine.createDataLayout());
  module.setTargetTriple(machine.getTargetTriple().str());
  if (effort > 0) optimise(module, machine, effort);
  if (machine.addPassesToEmitFile(work.codegen, work.object, nullptr,
                                  llvm::CodeGenFileType::ObjectFile))
    throw error(TN_INTERNAL, "LLVM cannot write object code for this processor");
  work.codegen.run(module);
}

}  // namespace

std::string compile_to_object(IrModule given, int effort) {
  Machine& machine = target_machine(effort);
  auto work = std::make_unique<Work>();
  work->context = std::move(given.context);
  work->module = std::move(given.module);
  compiles_here = true;
  try {
    generate(*work, *machine, effort);
  } catch (...) {
    compiles_here = false;
    (void)work.release();
    (void)machine.release();
    throw;
  }
  compiles_here = false;
  return {work->bytes.begin(), work->bytes.end()};
}

}  // namespace inductor
