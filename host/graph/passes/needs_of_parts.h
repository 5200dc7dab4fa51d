// Which results of an op need a gradient where the tape records its parts: what the row makes of its
// arguments may have come from other things, as the permutation of linalg_lu.
#pragma once

#include "core/dispatch.h"

#include <optional>
#include <span>
#include <vector>

namespace tenon {

class ShapeEnv;

/// Whether the tape has no node for the op, but for its parts.
bool has_needs_of_parts(const OpEntry& op);

struct NeedsOfParts {
  std::vector<bool> results;
  std::vector<bool> written;  ///< by argument: what the op leaves in it needs one
};

/// Runs the parts on fakes like `args`, which are fakes themselves, with the sizes and numbers that the
/// symbols have as an example: no question is asked. `env` knows the symbols; null where there are none.
/// Nothing where the parts cannot be run so.
std::optional<NeedsOfParts> needs_of_parts(const OpEntry& op, std::span<const Value> args,
                                           uint32_t n_results, const ShapeEnv* env);

}  // namespace tenon
