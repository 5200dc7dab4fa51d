// LLVM for this process: modules to object code, object code to addresses.
#pragma once

#include "codegen.h"

#include <llvm/IR/LLVMContext.h>

#include <memory>
#include <string>
#include <vector>

namespace inductor {

/// The processor that code is made for.
const CodeOptions& host_options();
/// What makes object code useless elsewhere: versions, processor, features.
std::string fingerprint();

/// Optimises the module and gives its relocatable object. `effort` 0 is quick, 2 is LLVM's O3.
/// Threads: any, with a module of its own.
std::string compile_to_object(llvm::Module& module, int effort);

/// Linked code; the memory is freed with it. Threads: any.
class LinkedCode {
 public:
  /// Throws `error` (TN_DATA_LOSS) where the bytes are no object code for this process.
  explicit LinkedCode(std::vector<std::string> objects);
  ~LinkedCode();
  LinkedCode(const LinkedCode&) = delete;
  LinkedCode& operator=(const LinkedCode&) = delete;
  KernelFunction find(const std::string& symbol) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace inductor
