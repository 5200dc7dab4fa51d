// Products of bf16, for kernels_avx512_bf16: a level of its own, since its instructions are.
#define MICROKERNEL_LEVEL avx512_bf16
#include "pair_pack_kernel.h"
#include "product_kernel.h"

namespace microkernel {

using namespace avx512_bf16;

namespace {

void multiply_pairs(const ProductBlock& b) {
  return b.right_row ? multiply<PairsOfRows>(b) : multiply<Pairs>(b);
}

}  // namespace

extern const ProductKernels products_bf16;
const ProductKernels products_bf16 = {panel_vectors * lane_count, lane_count, &pack_pairs,
                                      &multiply_pairs};

}  // namespace microkernel
