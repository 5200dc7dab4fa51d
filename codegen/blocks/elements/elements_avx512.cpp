// Functions over blocks for processors with AVX-512.
#define BLOCKS_LEVEL avx512
#include "level.h"
