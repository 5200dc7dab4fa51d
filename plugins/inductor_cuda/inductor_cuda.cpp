// inductor for NVIDIA GPUs: fused loops as kernels, by LLVM and the driver.
#include "backend.h"

TENON_PLUGIN_BACKENDS((inductor_cuda::Backend, "inductor"))
