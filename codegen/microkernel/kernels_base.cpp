#define MICROKERNEL_LEVEL base
#include "level.h"

namespace microkernel {

const Kernels kernels_base = base::table();

}  // namespace microkernel
