// Two primitives in one loop for processors with AVX2 and FMA.
#define BLOCKS_LEVEL avx2
#include "joined.h"
