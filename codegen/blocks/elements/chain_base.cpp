// Chains of primitives for processors with SSE2.
#define BLOCKS_LEVEL base
#include "chain.h"
