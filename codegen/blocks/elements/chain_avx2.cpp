// Chains of primitives for processors with AVX2 and FMA.
#define BLOCKS_LEVEL avx2
#include "chain.h"
