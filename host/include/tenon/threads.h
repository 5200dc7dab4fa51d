// SPDX-License-Identifier: Apache-2.0
// How many CPU threads the kernels of this process run on.
#pragma once

#include <tenon/error.h>

#include <cstdint>

namespace tenon {

/// The caller and its helpers; at first one a core. Any thread.
TENON_API int get_num_threads();
/// Sets the flag compiler.threads. Waits for kernels that run. Throws UserError below 1.
TENON_API void set_num_threads(int64_t n);

}  // namespace tenon
