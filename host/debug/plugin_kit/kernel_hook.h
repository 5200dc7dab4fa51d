// The eager kernels of the plugin in the op table of its process, on a switch.
#pragma once

#include "debug/plugin_kit/check.h"

namespace tenon::kit {

/// Puts all of them before the host's own; they are asked while a KernelScope lives.
void hook_kernels(Bench& bench);

class KernelScope {
 public:
  KernelScope();
  ~KernelScope();
  KernelScope(const KernelScope&) = delete;
};

/// Calls that a kernel of the plugin has taken.
int64_t kernels_taken();

}  // namespace tenon::kit
