#define MICROKERNEL_LEVEL avx512
#include "level.h"

namespace microkernel {

extern const ProductKernels products_bf16;

const Kernels kernels_avx512 = avx512::table();
const Kernels kernels_avx512_bf16 = avx512::table(&products_bf16);

}  // namespace microkernel
