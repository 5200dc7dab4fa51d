// The derivative of grid_sampler as ops that can be differentiated again.
#pragma once

#include <tenon/tensor.h>
#include <tenon/types.h>

#include <tuple>

namespace tenon::ops {

/// The schema's numbers.
enum Filter : int64_t { linear_filter = 0, nearest_filter = 1, cubic_filter = 2 };
enum Outside : int64_t { as_zero = 0, at_border = 1, reflected = 2 };

/// What grid_sampler_2d_backward and grid_sampler_3d_backward give; a gradient that is not in
/// `wanted` may be undefined.
std::tuple<Tensor, Tensor> unsample_parts(const Tensor& grad, const Tensor& input,
                                          const Tensor& grid, int64_t filter, int64_t outside,
                                          bool align_corners, BoolList wanted);

}  // namespace tenon::ops
