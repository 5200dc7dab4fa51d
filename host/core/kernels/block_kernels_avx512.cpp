// Block kernels for CPU level avx512.
#define TENON_LEVEL avx512
#include "core/kernels/block_kernels.inc"
