// 2-d convolution of NCHW or channels-last tensors through oneDNN's channels-last kernels.
//
// Problem: oneDNN's own threads cannot be used (the host has one pool), and its kernels want
// channels-last or blocked data where programs mostly have NCHW.
//
// Method: the work is cut into slices, each a dense primitive of its own on one thread.
//   images          when there are as many as workers;
//   output rows     else: a slice reads its rows and the halo, with its own padding at the border;
//   output channels else, for maps of less than 14 rows that are not depthwise: there the weights
//   are
//                   the heavy part, and rows would make every worker read all of them.
// A slice whose tensors are not channels-last brings its part of the source into a channels-last
// tile, runs, and brings the tile of the result back: tiles stay in the second-level cache, no
// whole copy of a tensor is ever made, and no worker waits for another. A channel slice always has
// such a tile, since oneDNN's fast kernels refuse a strided channels-last result.
//
// Weights are packed once per version and kept (packed_weights.h).
//
// Cost, measured on two cores with AVX-512: threads.md of the design has the table for
// channels-last; README.md the one for NCHW against PyTorch.
#pragma once

#include <tenon/plugin.h>

#include <cstdint>

namespace onednn {

struct Convolution {
  int32_t dtype;
  int64_t images, channels, height, width;  ///< of the source
  int64_t out_channels, out_height, out_width;
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  int64_t groups;
  const void* source;
  int64_t source_strides[4], result_strides[4];  ///< n, c, h, w
  const tn_tensor* weights;                      ///< [out, in / groups, kh, kw] or without kh
  int64_t weights_strides[4];                    ///< of [out, in / groups, kh, kw]
  const void* bias;                              ///< dense, or null
  void* result;
};

/// False when oneDNN has no good kernel for it; nothing is written then.
bool run_convolution(const Convolution& call);

}  // namespace onednn
