// The gradients of a 2-d convolution of NCHW tensors through oneDNN.
//
// Problem and threads: as prepared_convolution.cpp. Method: the images are cut into one part a
// worker; a part is brought into the layouts that oneDNN's backward kernels want, gives its part of
// the source's gradient, and a gradient of the weights of its own; these are added up in the order
// of the parts, so that results do not depend on timing. Cost, two threads, 50 images of 8x8: 32 to
// 64 channels 0.5 ms against 2.0 of the host's kernels.
#pragma once

#include "convolution.h"

namespace onednn {

struct ConvolutionGradients {
  Convolution forward;  ///< `result` and `bias` are not read
  const void* gradient;
  int64_t gradient_strides[4];
  /// Dense f32 results, or null where they are not wanted; `bias` wants `weights`.
  float *source, *weights, *bias;
};

/// False when oneDNN has no good kernel for it; nothing is written then.
bool run_convolution_gradients(const ConvolutionGradients& call);

}  // namespace onednn
