// What kernels complain about: checks with their messages, and the flag that a kernel sets.
#pragma once

#include <tenon/cuda.h>

#include <string>
#include <string_view>

namespace tenon::cuda {

/// The number of a message; equal ones have one. "{}" in it stands for the value. Threads: any.
int64_t add_check(std::string_view text);

/// Throws TN_OUT_OF_RANGE where a kernel has set the flag, and clears it.
void tell_of(tn_cuda_error_flag& flag);

}  // namespace tenon::cuda
