// A compile request to an executable.
#pragma once

#include "executable.h"

namespace inductor_cuda {

/// Throws `declined` where the graph is not for this backend.
std::unique_ptr<Executable> compile(const tn_compile_request& request, const Machine& machine);

}  // namespace inductor_cuda
