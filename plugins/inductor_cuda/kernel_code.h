// The code of a graph's kernels: made once in a process and once on a machine.
#pragma once

#include "emit/frame.h"
#include "machine.h"

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace inductor_cuda {

/// A kernel that has no code; the rest may have.
struct KernelFailure {
  std::string kernel, why;
  std::set<uint32_t> nodes;  // whose work it would have done
};

/// A kernel of the schedule: its versions and their code.
struct CompiledKernel {
  std::string name;
  std::vector<KernelPlan> plans;
  std::string ptx;  // for people; empty where the code comes from a cache
  std::shared_ptr<const LoadedCode> code;
  std::vector<tn_cuda_kernel*> functions;  // by plan
  int64_t position_check = 0, divisor_check = 0;
};

struct CodeOptions {
  Numerics numerics;
  bool may_alias = false;  // a call may write where it reads
};

struct CodeStatistics {
  uint32_t distinct = 0, from_process = 0, from_disk = 0;
  int64_t bytes = 0;
};

/// Code of this name: of the process, of the host's cache where there is a context, or what
/// `make_image` gives, which is also put in `made`. Threads: any.
std::shared_ptr<const LoadedCode> code_of(tn_ctx* ctx, const Device& device,
                                          const std::string& name,
                                          const std::function<std::string()>& make_image,
                                          CodeStatistics& statistics, std::string& made);
/// All of a device and of the options that code depends on.
std::string text_of(const Device& device, const CodeOptions& options);

/// Gives the kernels their symbols and code. Throws KernelFailure. Threads: any.
void make_code(tn_ctx* ctx, loopir::Program& program, std::span<CompiledKernel* const> kernels,
               const Device& device, const CodeOptions& options, CodeStatistics& statistics);

}  // namespace inductor_cuda
