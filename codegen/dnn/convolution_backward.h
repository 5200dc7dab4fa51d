// The gradients of a convolution through oneDNN.
//
// Problem and threads: as prepared_convolution.cpp. Method: the images are cut into one part a
// worker, and where there are fewer images than workers, the channels are cut too: those of the
// source for its gradient, those of the result for that of the weights. A part is brought into the
// layouts that oneDNN's backward kernels want; a part of the images gives a gradient of the weights
// of its own, and these are added up in the order of the parts, so that results do not depend on
// timing. Cost, two threads, 50 images of 8x8: 32 to 64 channels 0.5 ms against 2.0 of the host's
// kernels.
#pragma once

#include "prepared.h"

namespace onednn {

struct ConvolutionGradients {
  ConvolutionShape shape;        ///< of the forward call
  const void *source, *weights;  ///< its operands
  int64_t weights_strides[5];
  const void* gradient;
  int64_t gradient_strides[5];
  /// Results, or null where they are not wanted. Those of weights and bias are dense and in f32,
  /// and that of the bias wants that of the weights.
  void* of_source;
  float *of_weights, *of_bias;
  int64_t of_source_strides[5];
  int32_t of_source_dtype;  ///< that of the shape, or TN_F32
  int64_t workers;          ///< most parts
};

/// False when oneDNN has no good kernel for it; nothing is written then.
bool run_convolution_gradients(const ConvolutionGradients& call);
/// Whether it would run; addresses only say what is wanted.
bool has_convolution_gradients(const ConvolutionGradients& call);

}  // namespace onednn
