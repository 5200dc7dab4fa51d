// Code of kernels: compiled once in a process, and once on a machine.
#pragma once

#include <inductor_runtime/linked_code.h>
#include "jit.h"

#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace inductor {

/// A kernel that has no code; the rest may have.
struct KernelFailure {
  std::string kernel, why;
  std::set<uint32_t> nodes;  // whose work it would have done
};

/// A kernel whose code is wanted.
struct KernelRequest {
  const loopir::Nest* nest;
  KernelInterface* interface;  // its symbol is set here
  std::string key;
};

struct CacheStatistics {
  uint32_t distinct = 0, from_process = 0;
  bool from_disk = false;
  int64_t object_bytes = 0;
};

/// The code of all of them: what this process has already is shared, the rest comes from the host's
/// cache, else it is compiled on the host's threads (0: all of them) and put there. Throws
/// KernelFailure. Threads: any.
std::vector<KernelCode> code_for(tn_ctx* ctx, loopir::Program& program,
                                 std::span<KernelRequest> requests, const CodeOptions& options,
                                 int64_t threads, CacheStatistics& statistics);

}  // namespace inductor
