#define MICROKERNEL_LEVEL avx2
#include "level.h"

namespace microkernel {

const Kernels kernels_avx2 = avx2::table();

}  // namespace microkernel
