// The kernels of blocks, by how far the processor is used.
#pragma once

#include "core/kernels/block_kernels.h"

namespace tenon {

/// 0: any processor, 1: AVX2, 2: AVX-512.
inline const BlockKernels& kernels_of(int level) {
  const BlockKernels* tables[] = {&base::block_kernels, &avx2::block_kernels,
                                  &avx512::block_kernels};
  return *tables[level];
}

}  // namespace tenon
