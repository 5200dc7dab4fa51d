// Block kernels for CPU level base.
#define TENON_LEVEL base
#include "core/block_kernels.inc"
