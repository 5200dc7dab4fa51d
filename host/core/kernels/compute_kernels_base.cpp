// Compute kernels for CPU level base.
#define TENON_LEVEL base
#include "core/kernels/compute_kernels.inc"
