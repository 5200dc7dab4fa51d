// The sizes that costs are computed with.
#pragma once

#include "core/sym/shape_env.h"

#include <optional>

namespace tenon {

/// Like ShapeEnv::hint, with the sizes that marks ask costs to be computed with: for choices between
/// ways that are all right, never for guards.
std::optional<SymValue> cost_hint(const ShapeEnv& env, const Expr* expr);
std::optional<int64_t> cost_hint(const ShapeEnv& env, SymInt value);

}  // namespace tenon
