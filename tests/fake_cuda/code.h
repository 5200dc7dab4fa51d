// Modules, kernels and launches of the double.
#pragma once

#include "../../plugins/cuda/api/driver.h"
#include "fake_cuda.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace fake_cuda {

using tenon::cuda::api::Result;

/// A module that somebody gave the code of; launches that are still to come keep it.
struct ModuleState {
  const FakeCudaCode* code;
  void* handle;
  ~ModuleState() { code->unload(code->self, handle); }
};
struct FunctionState {
  std::shared_ptr<ModuleState> module;
  FakeCudaKernel kernel;
  uint32_t shared_allowed = 48 << 10;  // dynamic shared memory of a block
};
constexpr int most_shared = 227 << 10;

/// What a launch was made with.
struct Launch {
  std::shared_ptr<ModuleState> module;
  FakeCudaKernel kernel;
  uint32_t grid[3], block[3], shared_bytes;
  std::vector<std::vector<char>> values;

  Result run(bool (*may_touch)(const void*, size_t)) const;
};

/// All code of the process.
class Code {
 public:
  void set(const FakeCudaCode* code) { code_ = code; }
  /// Null, with the reason, where nobody takes the image.
  ModuleState* load(const void* image, const char** why_not);
  bool unload(ModuleState* module);
  /// Null where the module has no such kernel.
  FunctionState* find(ModuleState* module, const char* name);
  bool knows(FunctionState* function) const { return functions_.contains(function); }
  size_t alive() const { return modules_.size(); }

 private:
  const FakeCudaCode* code_ = nullptr;
  std::map<ModuleState*, std::shared_ptr<ModuleState>> modules_;
  std::map<FunctionState*, std::unique_ptr<FunctionState>> functions_;
};

/// How many bytes an image has, which the driver is not told: an object file says it itself, text
/// ends with a 0.
size_t image_bytes(const void* image);

/// A link that is under way: the double assembles text by keeping it.
struct LinkText {
  std::string text;
  char* log;
  size_t log_bytes;
};

}  // namespace fake_cuda
