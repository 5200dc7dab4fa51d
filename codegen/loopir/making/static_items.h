// What of a schedule depends on parameters and constants only, so that it is made once and again
// when the caller writes a parameter.
#pragma once

#include "loopir/kernel.h"

#include <functional>
#include <vector>

namespace loopir {

/// By buffer: whether it is a constant, or an input whose address stays.
std::vector<bool> static_buffers(const Program& p);
/// By item: whether it reads parameters and constants only, and what is made of those: no number of
/// a call. Those that `can` says no to are none, nor is what is made of them.
std::vector<bool> find_static_items(Program& p, const Schedule& schedule,
                                    const std::function<bool(size_t item)>& can = {});

}  // namespace loopir
