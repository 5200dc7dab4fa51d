// LLVM: from a module to PTX.
#include "image.h"

#include "emit/helpers.h"
#include "emit/thread_target.h"

#include <lanes/analyses.h>
#include <tenon/plugin.hpp>

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/GVN.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/Mem2Reg.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>

// NVPTX alone of LLVM's targets; its header names all that are built.
extern "C" {
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace inductor_cuda {

using tenon::plugin::declined;
using tenon::plugin::error;
using tenon::plugin::text;

std::string (*simt_image)(const EmitModule&) = nullptr;

namespace {

// LLVM ends the process where its code generator meets what it cannot do. On a thread that compiles
// here the handler throws instead, over frames of LLVM that have no cleanups; what they worked on
// is never touched again.
thread_local bool compiles_here = false;

void leave_llvm(void*, const char* reason, bool) {
  if (compiles_here) throw error(TN_INTERNAL, text("LLVM: {}", reason));
  std::fprintf(stderr, "LLVM ERROR: %s\n", reason);
  std::abort();
}

void start_llvm() {
  static const bool once = [] {
    llvm::remove_fatal_error_handler();
    llvm::install_fatal_error_handler(leave_llvm);
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  (void)once;
}

/// Made anew each time: they are not shared between threads, and a GPU has few kernels a graph.
std::unique_ptr<llvm::TargetMachine> machine_for(const std::string& processor) {
  start_llvm();
  std::string triple = "nvptx64-nvidia-cuda", problem;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, problem);
  if (!target) throw error(TN_INTERNAL, "LLVM has no code for GPUs: " + problem);
  llvm::TargetOptions how;
  how.AllowFPOpFusion = llvm::FPOpFusion::Standard;  // where instructions say so
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, processor, "+ptx83", how, llvm::Reloc::PIC_));
}

/// What LLVM works on for one module; left as it is where LLVM has stopped in the middle.
struct Work {
  explicit Work(IrModule given) : ir(std::move(given)) {}
  IrModule ir;
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out{bytes};
  llvm::legacy::PassManager codegen;
};

}  // namespace

void require_well_formed(const llvm::Module& module) {
  std::string problem;
  llvm::raw_string_ostream out(problem);
  if (llvm::verifyModule(module, &out))
    throw error(TN_INTERNAL, "generated code is malformed: " + problem);
}

void optimise(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::PassBuilder builder(&machine);
  lanes::Analyses analyses(builder);
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::PromotePass());
  passes.addPass(llvm::EarlyCSEPass(true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::GVNPass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::ADCEPass());
  for (llvm::Function& f : module)
    if (!f.isDeclaration()) passes.run(f, analyses.functions);
}

std::string generate(IrModule given, llvm::TargetMachine& machine, llvm::CodeGenFileType type) {
  auto work = std::make_unique<Work>(std::move(given));
  llvm::Module& module = *work->ir.module;
  module.setDataLayout(machine.createDataLayout());
  module.setTargetTriple(machine.getTargetTriple().str());
  compiles_here = true;
  try {
    optimise(module, machine);
    if (machine.addPassesToEmitFile(work->codegen, work->out, nullptr, type))
      throw error(TN_INTERNAL, "LLVM cannot write code for this processor");
    work->codegen.run(module);
  } catch (...) {
    compiles_here = false;
    (void)work.release();
    throw;
  }
  compiles_here = false;
  return {work->bytes.begin(), work->bytes.end()};
}

std::string processor_of(std::string_view arch) {
  int wanted = 0;
  if (arch.starts_with("sm_")) std::from_chars(arch.data() + 3, arch.data() + arch.size(), wanted);
  int best = 0;
  for (int known : {75, 80, 86, 87, 89, 90})
    if (known <= wanted) best = known;
  if (!best)
    throw declined(
        text("there is no code for a GPU of architecture \"{}\"; expected sm_75 or newer", arch));
  return "sm_" + std::to_string(best);
}

namespace {

// LLVM counts calls over the life of the process, in comments: what depends on the text must not.
std::string without_numbers_of_calls(const std::string& ptx) {
  constexpr std::string_view begin = "// callseq";
  std::string out;
  size_t from = 0;
  for (size_t at; (at = ptx.find(begin, from)) != ptx.npos;) {
    out.append(ptx, from, at - from);
    from = std::min(ptx.find('\n', at), ptx.size());
  }
  return out.append(ptx, from);
}

/// "min.s32 d, a, b;" as a comparison and a choice.
std::string chosen_extreme(std::string_view line) {
  size_t at = line.find_first_not_of(" \t");
  std::string_view width = line.substr(at + 5, 2), operands = line.substr(at + 8);
  size_t first = operands.find_first_not_of(" \t"), second = operands.find(", ") + 2;
  std::string_view to = operands.substr(first, second - first);
  std::string_view from = operands.substr(second, operands.find(';') - second);
  std::string_view order = line.substr(at, 3) == "min" ? "lt" : "gt";
  return text("\t{ .reg .pred %chosen; setp.{}.s{} %chosen, {}; selp.b{} {}{}, %chosen; }", order,
              width, from, width, to, from);
}

bool is_signed_extreme(std::string_view line) {
  size_t at = line.find_first_not_of(" \t");
  if (at == line.npos) return false;
  std::string_view op = line.substr(at, 7);
  return op == "min.s32" || op == "max.s32" || op == "min.s16" || op == "max.s16";
}

// The compiler in NVIDIA's driver (seen with CUDA 13.0, 580.159, for sm_90) makes one instruction of
// two signed minima or maxima and gets it wrong where operands are negated: max(max(-1, -36), -9) is
// 36 then. A comparison and a choice it leaves as they are.
std::string without_joined_extremes(std::string ptx) {
  if (ptx.find("neg.s") == ptx.npos) return ptx;
  std::string out;
  for (size_t from = 0; from < ptx.size();) {
    size_t end = std::min(ptx.find('\n', from), ptx.size());
    std::string_view line(ptx.data() + from, end - from);
    if (is_signed_extreme(line))
      out += chosen_extreme(line);
    else
      out += line;
    out += '\n';
    from = end + 1;
  }
  return out;
}

}  // namespace

std::string compile_to_ptx(IrModule module, std::string_view arch) {
  auto machine = machine_for(processor_of(arch));
  add_helpers(*module.module);
  require_well_formed(*module.module);
  return without_joined_extremes(without_numbers_of_calls(
      generate(std::move(module), *machine, llvm::CodeGenFileType::AssemblyFile)));
}

std::string image_of(const EmitModule& emit, std::string_view arch) {
  if (!is_simt(arch)) return compile_to_ptx(emit(arch), arch);
  if (!simt_image) throw declined("code for the architecture simt is made in tests only");
  return simt_image(emit);
}

std::string fingerprint() { return text("llvm {}, extremes chosen", LLVM_VERSION_STRING); }

}  // namespace inductor_cuda
