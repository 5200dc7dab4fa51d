// Anomaly mode in compiled passes: gradients are checked where they reach their leaves.
#pragma once

#include "tape/walk.h"

namespace tenon::tape {

/// Under a DetectAnomalyGuard: throws UserError, which names the leaf of `node` and as far as it is
/// known the op, for a gradient with a NaN, and for one that the leaf had before.
void check_nan(const TapeWalk& walk, const Node& node, const Tensor& grad);

}  // namespace tenon::tape
