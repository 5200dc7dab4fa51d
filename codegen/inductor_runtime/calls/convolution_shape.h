// The shape of one call's convolution, as oneDNN's adapter wants it.
#pragma once

#include "placed.h"

#include <dnn/prepared.h>

#include <algorithm>

namespace inductor {

/// `Step`: a convolution or a gradient of one. Without the bias.
template <class Step>
onednn::ConvolutionShape shape_of(const Step& step, const Placed& source, const Placed& weights,
                                  const Placed& result) {
  onednn::ConvolutionShape out{};
  out.dtype = step.dtype;
  out.images = source.sizes[0], out.channels = source.sizes[1], out.out_channels = result.sizes[1];
  out.groups = step.groups;
  std::copy_n(source.sizes.begin() + 2, 3, out.source);
  std::copy_n(result.sizes.begin() + 2, 3, out.result);
  std::copy_n(weights.sizes.begin() + 2, 3, out.kernel);
  std::copy_n(step.stride, 3, out.stride);
  std::copy_n(step.padding, 3, out.padding);
  std::copy_n(step.dilation, 3, out.dilation);
  std::copy_n(source.strides.begin(), 5, out.source_strides);
  std::copy_n(result.strides.begin(), 5, out.result_strides);
  return out;
}

}  // namespace inductor
