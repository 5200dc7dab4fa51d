// Names of kernels for Linux's perf, which knows functions of files only.
#pragma once

#include <inductor_runtime/linked_code.h>

#include <span>

namespace inductor {

/// Appends the kernels to /tmp/perf-PID.map, the place where perf looks. Where that file cannot be
/// written, or is somebody else's, a warning says so.
void write_perf_map(std::span<const NamedKernel> kernels);

}  // namespace inductor
