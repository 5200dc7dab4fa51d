#define MICROKERNEL_LEVEL avx512
#include "level.h"

namespace microkernel {

const Kernels kernels_avx512 = avx512::table();

}  // namespace microkernel
