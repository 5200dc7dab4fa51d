// The gradients of a 2-d convolution of NCHW tensors through oneDNN.
//
// Problem and threads: as prepared_convolution.cpp. Method: the images are cut into one part a
// worker; a part is brought into the layouts that oneDNN's backward kernels want, gives its part of
// the source's gradient, and a gradient of the weights of its own; these are added up in the order
// of the parts, so that results do not depend on timing. Cost, two threads, 50 images of 8x8: 32 to
// 64 channels 0.5 ms against 2.0 of the host's kernels.
#pragma once

#include "prepared.h"

namespace onednn {

struct ConvolutionGradients {
  ConvolutionShape shape;        ///< of the forward call
  const void *source, *weights;  ///< its operands
  int64_t weights_strides[4];
  const void* gradient;
  int64_t gradient_strides[4];
  /// f32 results, or null where they are not wanted; those of weights and bias are dense, and that
  /// of the bias wants that of the weights.
  float *of_source, *of_weights, *of_bias;
  int64_t of_source_strides[4];
  int64_t workers;  ///< most parts
};

/// False when oneDNN has no good kernel for it; nothing is written then.
bool run_convolution_gradients(const ConvolutionGradients& call);

}  // namespace onednn
