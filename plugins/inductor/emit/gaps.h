// Lanes that lie 2 to 4 elements apart, as blocks without gaps.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <vector>

namespace inductor {

/// Whether lanes so far apart are read and written as `step` blocks.
inline bool has_few_gaps(int64_t step) { return step >= 2 && step <= 4; }

/// Block number `block` of the `step` blocks that `lanes` make with gaps between them; nothing (0)
/// lies in those.
inline llvm::Value* with_gaps(llvm::IRBuilder<>& b, llvm::Value* lanes, int64_t step,
                              int64_t block) {
  auto* type = llvm::cast<llvm::FixedVectorType>(lanes->getType());
  int64_t width = type->getNumElements();
  std::vector<int> from;
  for (int64_t place = block * width; place < (block + 1) * width; ++place)
    from.push_back(static_cast<int>(place % step == 0 ? place / step : width));
  return b.CreateShuffleVector(lanes, llvm::Constant::getNullValue(type), from);
}

}  // namespace inductor
