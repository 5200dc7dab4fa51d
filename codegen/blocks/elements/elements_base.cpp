// Functions over blocks for processors with SSE2.
#define BLOCKS_LEVEL base
#include "level.h"
