// 3 x 3 convolutions with weights that were packed before, in f32, channels-last.
#pragma once

#include "kernels.h"

#include <span>
#include <vector>

namespace microkernel {

/// A convolution with a 3 x 3 kernel, stride and dilation 1 and one group. Pixels are dense in
/// channels; strides are in elements.
struct WinogradConvolution {
  int64_t images, channels, height, width, out_channels, out_height, out_width;
  int64_t padding[2];
  int64_t source_image, source_row, source_pixel;
  int64_t result_image, result_row, result_pixel;

  /// Whether it is worth it: many channels, and tiles that are mostly full.
  bool is_worth_it() const;

  /// Floats of packed weights; best aligned to 64 bytes.
  int64_t packed_size() const;
  int64_t pack_parts() const;
  /// From weights [out_channels, channels, 3, 3] at these strides. Parts may be packed at the same
  /// time.
  void pack(int64_t part, const float* weights, const int64_t (&strides)[4], float* packed) const;

  /// How the work is cut for so many threads.
  struct Cut {
    int64_t tiles;     // of a chunk
    int64_t channels;  // ranges of output channels
    int64_t chunks;
  };
  Cut cut(int64_t threads) const;
  /// Floats that run() needs, aligned to 64 bytes.
  int64_t scratch_size(const Cut& cut) const;

  struct Operands {
    const float *source, *packed, *bias;  ///< bias: or null
    float* result;
    std::span<const Finish> finish;  ///< operands lie as the result does
  };
  /// One chunk. Different ones may run at the same time, each with scratch memory of its own.
  void run(const Cut& cut, int64_t chunk, const Operands& operands, float* scratch) const;

 private:
  int64_t tiles_across() const { return (out_width + 3) / 4; }
  int64_t tiles() const { return (out_height + 3) / 4 * tiles_across(); }
};

}  // namespace microkernel
