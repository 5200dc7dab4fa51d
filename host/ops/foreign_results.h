// What kernels that are not the host's give, held against what the op promises.
#pragma once

#include "core/dispatch.h"

#include <optional>
#include <string>

namespace tenon {

/// What is wrong with the results of a call that a kernel of a plugin or of the program has run, or
/// nothing: a tensor that is missing, or one of another dtype, rank, size or stride than the op's
/// shape function says, which compiled code relies on. Of results that depend on data only whether
/// they are there. Cost: the shape function.
std::optional<std::string> foreign_result_problem(const CallArgs& call);
/// Releases all results.
void drop_results(const CallArgs& call);

}  // namespace tenon
