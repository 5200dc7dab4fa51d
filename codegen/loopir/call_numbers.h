// The table of a call's numbers (reals.h) where draws do not come from the host's generator.
#pragma once

#include "reals.h"

#include <functional>

namespace loopir {

/// Takes that many blocks from a generator: its seed, and the first of them.
using TakeBlocks = std::function<void(uint64_t blocks, uint64_t* seed, uint64_t* first)>;

/// table_of() of reals.h whose draws have the blocks that `take` takes.
std::span<const int64_t> table_of(const Program& program, std::span<const int64_t> symbols,
                                  std::vector<int64_t>& memory, const TakeBlocks& take);

}  // namespace loopir
