// Two primitives in one loop for processors with AVX-512.
#define BLOCKS_LEVEL avx512
#include "joined.h"
