// Two primitives in one loop for processors with SSE2.
#define BLOCKS_LEVEL base
#include "joined.h"
