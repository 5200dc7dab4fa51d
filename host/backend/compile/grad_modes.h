// Captured graphs whose nodes do not all run with gradients as their caller has them.
#pragma once

#include "backend/backend.h"

namespace tenon {

/// Whether all nodes run with gradients off while the caller has them on: its code is called so.
bool runs_with_gradients_off(const CompileRequest& request);
/// Whether some nodes do, and others do not: code follows the modes of nodes, or gets it wrong.
bool has_both_modes(const CompileRequest& request);

}  // namespace tenon
