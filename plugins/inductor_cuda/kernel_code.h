// The code of a graph's kernels: made once in a process and once on a machine.
#pragma once

#include "emit/frame.h"
#include "machine.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace inductor_cuda {

/// A kernel that has no code; the rest may have.
struct KernelFailure {
  std::string kernel, why;
  std::set<uint32_t> nodes;  // whose work it would have done; of a group none
};

/// A kernel of the schedule, or a group of some that one launch does: its versions and their code.
struct CompiledKernel {
  std::string name;
  std::vector<KernelPlan> plans;         // of a group none
  std::vector<CompiledKernel*> members;  // of a group, in the order of their blocks
  size_t item = 0;                       // of the schedule
  bool may_alias = false;                // a call may write where it reads
  std::string ptx;                       // for people; empty where the code comes from a cache
  std::string code_name;                 // of the image; of a member of a group none
  std::shared_ptr<const LoadedCode> code;
  std::vector<std::string> symbols;        // by version
  std::vector<tn_cuda_kernel*> functions;  // by version
  int64_t position_check = 0, divisor_check = 0;

  bool is_group() const { return !members.empty(); }
  KernelPlan& plan(size_t version) { return plans[std::min(version, plans.size() - 1)]; }
  const KernelPlan& plan(size_t version) const {
    return plans[std::min(version, plans.size() - 1)];
  }
  /// Of a group: all members' first ones, and all members' last ones.
  size_t versions() const {
    size_t n = plans.size();
    for (const CompiledKernel* m : members) n = std::max(n, m->plans.size());
    return n;
  }
};

struct CodeStatistics {
  uint32_t distinct = 0, from_process = 0, from_disk = 0;
  int64_t bytes = 0;
};

/// Images by name, as they were saved with an executable.
using SavedImages = std::map<std::string, std::string>;

/// Where code is looked for beside the process.
struct CodeStore {
  tn_ctx* ctx = nullptr;               // the host's cache
  const SavedImages* saved = nullptr;  // what an executable was saved with
};

/// Code of this name: of the process, of the store, or what `make_image` gives, which is also put in
/// `made`. Threads: any.
std::shared_ptr<const LoadedCode> code_of(const CodeStore& store, const Device& device,
                                          const std::string& name,
                                          const std::function<std::string()>& make_image,
                                          CodeStatistics& statistics, std::string& made);
/// All that code depends on beside the kernel.
std::string text_of(const Device& device, Numerics numerics, bool may_alias = false);

/// Gives the kernels their symbols and code. Throws KernelFailure. Threads: any.
void make_code(tn_ctx* ctx, loopir::Program& program, std::span<CompiledKernel* const> kernels,
               const Device& device, Numerics numerics, CodeStatistics& statistics);
/// Bytes that a thread of the kernel keeps in memory, for want of registers.
uint32_t spilled_bytes(const Device& device, const CompiledKernel& kernel);
/// Gives kernels that have their symbols the code that they were saved with. Throws `error`
/// (TN_DATA_LOSS) where it is not there, or the device does not take it. Threads: any.
void take_code(const SavedImages& saved, const Device& device,
               std::span<CompiledKernel* const> kernels);

}  // namespace inductor_cuda
