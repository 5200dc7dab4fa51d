// A compile request to an executable.
#pragma once

#include <inductor_runtime/executable.h>

namespace inductor {

/// Throws `declined` where the graph is not for this backend.
std::unique_ptr<Executable> compile(const tn_compile_request& request);

}  // namespace inductor
