// Block kernels for CPU level base.
#define TENON_LEVEL base
#include "core/kernels/block_kernels.inc"
