// SPDX-License-Identifier: Apache-2.0
// Functions of torch and torch.nn.functional that are more than one op, with their arguments and
// defaults. What is one op is in <tenon/ops.h>.
//
//     Tensor half = interpolate(images, {.scale_factor = {0.5}, .mode = "bilinear", .antialias = true});
//     Tensor turned = grid_sample(images, affine_grid(theta, images.sizes()));
//     auto [values, where, counts] = unique(labels, true, true, true);
#pragma once

#include <tenon/tensor.h>

#include <optional>
#include <source_location>
#include <string_view>
#include <tuple>
#include <vector>

namespace tenon {

/// Whether all elements are as isclose() says. In a compiled body this is a look at data.
TENON_API bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
                        bool equal_nan = false,
                        std::source_location where = std::source_location::current());

/// Each value once, in rising order whatever `sorted` says.
TENON_API Tensor unique(const Tensor& self, bool sorted = true);
/// The values, for each element the number of its value, and how often each value is there; without
/// elements where it was not asked for. With `dim`, of the slices along it.
TENON_API std::tuple<Tensor, Tensor, Tensor> unique(const Tensor& self, bool sorted,
                                                    bool return_inverse, bool return_counts = false,
                                                    std::optional<int64_t> dim = std::nullopt);

struct InterpolateOptions {
  std::vector<SymInt> size = {};  ///< of the result, a number a dimension; or one for all
  std::vector<double> scale_factor = {};
  /// nearest, nearest-exact, area; linear (3 dimensions), bilinear, bicubic (4), trilinear (5)
  std::string_view mode = "nearest";
  std::optional<bool> align_corners = {};  ///< of the linear and cubic modes; unset: false
  /// Sample by the sizes that follow from the factors, rather than by the factors.
  bool recompute_scale_factor = false;
  bool antialias = false;  ///< of bilinear and bicubic
};
/// Resizes the dimensions behind batch and channels. Throws UserError unless one of size and
/// scale_factor is given, and for modes that do not take such a tensor.
TENON_API Tensor interpolate(const Tensor& input, const InterpolateOptions& options);

/// What `input` has at the places of `grid`: [n, h, w, 2] with x and y in [-1, 1] for images,
/// [n, d, h, w, 3] for volumes. Modes: bilinear, nearest, bicubic; padding: zeros, border, reflection.
TENON_API Tensor grid_sample(const Tensor& input, const Tensor& grid,
                             std::string_view mode = "bilinear",
                             std::string_view padding_mode = "zeros", bool align_corners = false);
/// The grid of affine maps: theta [n, 2, 3] for a size of 4 numbers, [n, 3, 4] for one of 5.
TENON_API Tensor affine_grid(const Tensor& theta, SymIntList size, bool align_corners = false);

inline bool is_cuda(const Tensor& t) { return t.device().type == DeviceType::cuda; }
/// Bytes of an element.
inline int64_t element_size(const Tensor& t) { return itemsize(t.dtype()); }
/// Bytes of all elements; a view may have less memory than that.
inline SymInt nbytes(const Tensor& t) { return t.numel() * element_size(t); }

}  // namespace tenon
