// The table of the extension tenon.cuda/1.
#pragma once

#include <tenon/cuda.h>

namespace tenon::cuda {

const tn_cuda_api& code_api();

}  // namespace tenon::cuda
