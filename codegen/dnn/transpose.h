// Between NCHW and channels-last, for a run of positions of one image.
//
// oneDNN's own reorder reaches 10-15 GB/s here, as much time as a light convolution takes. Model:
// memory-bound, so what counts is that every cache line is read and written once and that few pages
// are open at a time. Method: blocks of 8 channels by 8 positions in registers; the outer loop runs
// over the channels, so that 8 planes are streams in order and the other side is filled in runs of
// 8 channels.
#pragma once

#include <cstddef>
#include <cstdint>

namespace onednn {

/// `element` is 2 or 4 bytes; planes lie `plane` elements apart; the tile is [positions][channels].
void to_channels_last(const void* planes, int64_t plane, void* tile, int64_t channels,
                      int64_t positions, int64_t element);
void from_channels_last(const void* tile, void* planes, int64_t plane, int64_t channels,
                        int64_t positions, int64_t element);

/// Whether these are faster than oneDNN's reorder: the CPU has AVX2, and there are blocks to fill.
bool transposes_well(int64_t channels, int64_t positions);

}  // namespace onednn
