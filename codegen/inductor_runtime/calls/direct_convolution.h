// The shapes of one call's convolutions in f64, as the microkernels want them.
#pragma once

#include "placed.h"

#include <microkernel/direct.h>

#include <array>
#include <optional>

namespace inductor {

inline bool has_dense_channels(const Placed& v) { return v.strides[1] == 1 || v.sizes[1] == 1; }

/// `is_reversed`: from the result to the source.
template <class Step>
std::array<microkernel::DirectAxis, 3> axes_of(const Step& step, const Placed& from,
                                               const Placed& weights, const Placed& to,
                                               bool is_reversed) {
  std::array<microkernel::DirectAxis, 3> out;
  for (size_t d = 0; d < 3; ++d)
    out[d] = {from.sizes[2 + d], to.sizes[2 + d],  weights.sizes[2 + d], step.stride[d],
              step.padding[d],   step.dilation[d], is_reversed};
  return out;
}

inline void copy_strides(const Placed& v, int64_t (&out)[4]) {
  out[0] = v.strides[0];
  std::copy_n(v.strides.begin() + 2, 3, out + 1);
}

/// Whether groups have enough channels for vectors of them, and windows more than one place: the
/// host's blocked products are faster for others.
inline bool is_direct(const Placed& weights, int64_t channels, int64_t out_channels) {
  constexpr int64_t fewest = 8;
  int64_t taps = weights.sizes[2] * weights.sizes[3] * weights.sizes[4];
  return taps > 1 && channels >= fewest && out_channels >= fewest;
}

/// A convolution, or reversed the gradient of its source; none where the source's channels are not
/// dense.
template <class Step>
std::optional<microkernel::DirectConvolution> direct_convolution(const Step& step,
                                                                 const Placed& from,
                                                                 const Placed& weights,
                                                                 const Placed& to,
                                                                 bool is_reversed) {
  microkernel::DirectConvolution out{from.sizes[0],
                                     step.groups,
                                     from.sizes[1] / step.groups,
                                     to.sizes[1] / step.groups,
                                     axes_of(step, from, weights, to, is_reversed),
                                     {},
                                     {},
                                     to.strides[1]};
  bool is_possible = step.dtype == TN_F64 && has_dense_channels(from) &&
                     is_direct(weights, out.channels, out.out_channels);
  if (!is_possible) return std::nullopt;
  copy_strides(from, out.source_strides);
  copy_strides(to, out.result_strides);
  out.find_places();
  return out;
}

template <class Step>
std::optional<microkernel::DirectCorrelation> direct_correlation(const Step& step,
                                                                 const Placed& source,
                                                                 const Placed& gradient,
                                                                 const Placed& weights) {
  const std::vector<int64_t>& by = weights.strides;
  int64_t outs = gradient.sizes[1] / step.groups;
  microkernel::DirectCorrelation out{source.sizes[0],
                                     step.groups,
                                     source.sizes[1] / step.groups,
                                     outs,
                                     axes_of(step, source, weights, gradient, false),
                                     {},
                                     {},
                                     outs * by[0],
                                     by[1],
                                     by[0],
                                     {by[2], by[3], by[4]}};
  bool is_possible = step.dtype == TN_F64 && has_dense_channels(source) &&
                     has_dense_channels(gradient) &&
                     is_direct(weights, out.channels, out.out_channels);
  if (!is_possible) return std::nullopt;
  copy_strides(source, out.source_strides);
  copy_strides(gradient, out.gradient_strides);
  return out;
}

/// Weights [out, in / groups, ...] of a convolution, or of the gradient of its source.
inline microkernel::DirectConvolution::Weights direct_weights(const Placed& w, int64_t groups,
                                                              const double* data,
                                                              bool is_reversed) {
  const std::vector<int64_t>& by = w.strides;
  int64_t group = w.sizes[0] / groups * by[0];
  return {data, group, by[is_reversed ? 0 : 1], by[is_reversed ? 1 : 0], {by[2], by[3], by[4]}};
}

}  // namespace inductor
