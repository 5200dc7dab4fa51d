#include "disassembly.h"

#include <llvm-c/Disassembler.h>
#include <llvm-c/Target.h>
#include <tenon/plugin.hpp>

#include <memory>
#include <mutex>

namespace inductor {

namespace {

using tenon::plugin::text;

void start_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86Disassembler();
  });
}

std::string lines_of(LLVMDisasmContextRef disassembler, const NamedKernel& kernel) {
  std::string out = kernel.name + ":\n";
  auto* code = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(kernel.code.data()));
  char line[256];
  for (size_t at = 0; at < kernel.code.size();) {
    size_t n = LLVMDisasmInstruction(disassembler, code + at, kernel.code.size() - at, at, line,
                                     sizeof line);
    if (n == 0) return out + "  no instruction\n";
    char place[24];
    snprintf(place, sizeof place, "%6zx", at);
    out += place + std::string(line) + "\n";
    at += n;
  }
  return out;
}

}  // namespace

std::string disassembled(std::span<const NamedKernel> kernels) {
  start_once();
  // All features: what is there was made for some processor.
  std::unique_ptr<void, void (*)(void*)> disassembler(
      LLVMCreateDisasm("x86_64-unknown-linux-gnu", nullptr, 0, nullptr, nullptr),
      LLVMDisasmDispose);
  if (!disassembler) return "";
  LLVMSetDisasmOptions(disassembler.get(), LLVMDisassembler_Option_AsmPrinterVariant);
  std::string out;
  for (const NamedKernel& kernel : kernels) out += lines_of(disassembler.get(), kernel);
  return out;
}

}  // namespace inductor
