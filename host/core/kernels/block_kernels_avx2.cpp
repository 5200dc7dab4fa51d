// Block kernels for CPU level avx2.
#define TENON_LEVEL avx2
#include "core/kernels/block_kernels.inc"
