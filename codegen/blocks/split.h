// Variables that indices take apart, taken apart before code is made.
#pragma once

#include <loopir/kernel.h>

namespace blocks {

/// The nest with lanes over (i, j) in place of k = n i + j where indices have k / n or k mod n: a
/// copy between layouts is then straight in both. Other variables stay as they are.
loopir::Nest split_lanes(loopir::Program& program, const loopir::Nest& nest);

}  // namespace blocks
