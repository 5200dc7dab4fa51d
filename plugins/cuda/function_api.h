// The part of tenon.cuda/1 for functions that are recorded.
#pragma once

#include <tenon/cuda.h>

namespace tenon::cuda {

/// Fills in its functions.
void add_function_api(tn_cuda_api& table);

}  // namespace tenon::cuda
