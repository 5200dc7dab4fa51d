// Convolution for eager kernels: the weights come with each call, and their packed form is
// found by tensor and version (packed_weights.h). How the work is done stands in
// prepared_convolution.cpp.
#pragma once

#include "prepared.h"

namespace onednn {

struct Convolution {
  ConvolutionShape shape;
  const void* source;
  const tn_tensor* weights;    ///< [out, in / groups, kernel...]
  int64_t weights_strides[5];  ///< of [out, in / groups, kd, kh, kw]
  const void* bias;            ///< dense, or null
  void* result;
};

/// False when oneDNN has no good kernel for it; nothing is written then.
bool run_convolution(const Convolution& call);

}  // namespace onednn
