// Chains of primitives for processors with AVX-512.
#define BLOCKS_LEVEL avx512
#include "chain.h"
