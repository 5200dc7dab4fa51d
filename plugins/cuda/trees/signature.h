// What has to be equal for two calls of a function to share recordings.
#pragma once

#include <tenon/plugin.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::cuda::trees {

/// Symbols, and of each input its device, dtype, sizes and strides, which earlier input it shares
/// its storage with and how far apart the two are, and, by TN_CUDA_INPUT_BY_PLACE, its offset.
/// Cost: linear, 0.1 us for 20 inputs.
void write_signature(const tn_call& call, std::span<const uint32_t> input_flags,
                     std::vector<int64_t>& out);

}  // namespace tenon::cuda::trees
