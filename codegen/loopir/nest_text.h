// The loops of a kernel as text.
#pragma once

#include "kernel.h"

#include <string>

namespace loopir {

/// The variables of the loops as they were ordered, and which of them run over lanes.
std::string text_of(const Program& program, const Nest& nest);

}  // namespace loopir
