// The functions of one level of vectors; each elements_LEVEL.cpp includes them with its own flags.
//
// Nothing here may be shared between the levels: an inline function that the linker takes from the
// object with the widest vectors would fail on other machines. So all lives in a namespace that is
// the level's, and no header of the standard library with functions in it is used.
#pragma once

#include <inductor_runtime/special_functions.h>
#include "elements.h"

#include <tenon/plugin.h>

// Its functions are parts of their callers, always.
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "functions.h"

#include "vectors.h"

#include "loops.h"

#include "folds.h"

namespace blocks::BLOCKS_LEVEL {

const Elements table = {find_primitive, find_joined, run_joined, find_chained, run_chain,
                        vector_bytes,   8 * lanes,   find_fold,  find_scan,    find_places,
                        from_half,      from_bf16,   to_half,    to_bf16,      to_truth};

}  // namespace blocks::BLOCKS_LEVEL
