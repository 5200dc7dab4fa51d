// Block kernels for CPU level avx2.
#define TENON_LEVEL avx2
#include "core/block_kernels.inc"
