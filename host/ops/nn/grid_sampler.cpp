// grid_sampler: values of an image at given positions, -1 to 1 across each dimension.
//
// Method: a position becomes a list of taps (offset in a channel, weight), at most 16, which serves
//   all channels. Positions outside count as 0, or are moved to the border, or are reflected at it;
//   for the cubic filter each tap is moved, for the others the position itself.
#include "core/threads/thread_pool.h"
#include "ops/kernel_loops.h"
#include "ops/nn/grid_sampler_parts.h"
#include "ops/op.h"
#include "ops/shape_check.h"
#include "ops/shapes.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/linalg.h>
#include <tenon/ops/nn.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/view.h>

#include <algorithm>
#include <cmath>

namespace tenon::ops {

namespace {

struct GridSettings {
  int64_t filter, outside;
  bool align_corners;
};

// The taps of one dimension: positions in it (-1 for none), weights, and what these change by per
// change of the normalized position.
template <class C>
struct AxisTaps {
  int64_t n = 0;
  int64_t at[4];
  C weight[4], slope[4];
  void add(int64_t position, C w, C rise = 0) {
    at[n] = position;
    slope[n] = rise;
    weight[n++] = w;
  }
};

// `direction` turns with each reflection.
template <class C>
C reflect_between(C x, C twice_low, C twice_high, C& direction) {
  if (twice_low == twice_high) return direction = C(0);
  C low = twice_low / 2, span = (twice_high - twice_low) / 2;
  if (x < low) direction = -direction;
  x = std::abs(x - low);
  C extra = std::fmod(x, span);
  bool even = std::fmod(std::floor(x / span), C(2)) == 0;
  if (!even) direction = -direction;
  return even ? extra + low : span - extra + low;
}

// `direction`: 1, -1 where the position runs backwards, 0 where it stays at the border.
template <class C>
C moved_inside(C x, int64_t size, const GridSettings& s, C& direction) {
  direction = 1;
  if (s.outside == as_zero) return x;
  if (s.outside == reflected)
    x = s.align_corners ? reflect_between(x, C(0), static_cast<C>(2 * (size - 1)), direction)
                        : reflect_between(x, C(-1), static_cast<C>(2 * size - 1), direction);
  if (!(x > C(0)) || x >= static_cast<C>(size - 1)) direction = 0;
  return std::min(static_cast<C>(size - 1), std::max(x, C(0)));
}

// Without a call for numbers that an integer holds. Of -0 it is 0: weights of 0 add nothing either
// way.
template <class C>
C floor_of(C x) {
  if (!(std::abs(x) < C(1 << 30))) return std::floor(x);
  C whole = static_cast<C>(static_cast<int32_t>(x));
  return whole > x ? whole - 1 : whole;
}

// As an integer position, or -1 outside and for NaN.
template <class C>
int64_t position_in(C x, int64_t size) {
  return x > C(-1) && x < static_cast<C>(size) ? static_cast<int64_t>(x) : -1;
}

template <class C>
C cubic_weight(C x) {
  constexpr C a = C(-0.75);
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

template <class C>
C cubic_slope(C x) {
  constexpr C a = C(-0.75);
  C sign = x < 0 ? C(-1) : C(1);
  x = std::abs(x);
  if (x <= 1) return sign * (3 * (a + 2) * x - 2 * (a + 3)) * x;
  return sign * ((3 * a * x - 10 * a) * x + 8 * a);
}

template <class C>
C position_of(C normalized, int64_t size, const GridSettings& s) {
  C n = static_cast<C>(size);
  return s.align_corners ? (normalized + 1) / 2 * (n - 1) : ((normalized + 1) * n - 1) / 2;
}

template <class C>
AxisTaps<C> axis_taps(C normalized, int64_t size, const GridSettings& s) {
  C n = static_cast<C>(size);
  C x = position_of(normalized, size, s);
  C rise = s.align_corners ? (n - 1) / 2 : n / 2, direction = 1;
  AxisTaps<C> taps;
  if (s.filter == cubic_filter) {
    C first = floor_of(x), part = x - first;
    for (int k = -1; k < 3; ++k)
      taps.add(position_in(moved_inside(first + static_cast<C>(k), size, s, direction), size),
               cubic_weight(part - static_cast<C>(k)),
               rise * cubic_slope(part - static_cast<C>(k)));
    return taps;
  }
  x = moved_inside(x, size, s, direction);
  if (s.filter == nearest_filter) {
    taps.add(position_in(std::nearbyint(x), size), C(1));
    return taps;
  }
  C first = floor_of(x), part = x - first;
  taps.add(position_in(first, size), 1 - part, -rise * direction);
  taps.add(position_in(first + 1, size), part, rise * direction);
  return taps;
}

template <class C>
struct Tap {
  int64_t offset;
  C weight;
};

struct SampledShape {
  int64_t n_space, channels, positions;
  std::array<int64_t, 3> sizes{1, 1, 1};  // depth, height, width
};

// `grid` holds x, y (and z).
template <class C>
int64_t taps_at(const C* grid, const SampledShape& shape, const GridSettings& s, Tap<C>* taps) {
  AxisTaps<C> axis[3];
  axis[0].add(0, C(1));
  for (int64_t d = 0; d < shape.n_space; ++d)
    axis[2 - d] = axis_taps(grid[d], shape.sizes[static_cast<size_t>(2 - d)], s);
  int64_t n = 0;
  for (int64_t i = 0; i < axis[0].n; ++i)
    for (int64_t j = 0; j < axis[1].n; ++j)
      for (int64_t k = 0; k < axis[2].n; ++k) {
        int64_t z = axis[0].at[i], y = axis[1].at[j], x = axis[2].at[k];
        if (z < 0 || y < 0 || x < 0) continue;
        taps[n++] = {(z * shape.sizes[1] + y) * shape.sizes[2] + x,
                     axis[0].weight[i] * axis[1].weight[j] * axis[2].weight[k]};
      }
  return n;
}

// The taps of a linear filter on a plane where all four lie within: most do, and these need neither
// lists nor floors. False elsewhere, and where reflecting rounds the position.
template <class C>
bool inner_taps(const C* grid, const SampledShape& shape, const GridSettings& s, Tap<C>* taps) {
  if (s.filter != linear_filter || s.outside == reflected || shape.n_space != 2) return false;
  int64_t height = shape.sizes[1], width = shape.sizes[2];
  C x = position_of(grid[0], width, s), y = position_of(grid[1], height, s);
  bool are_within = x >= 0 && x < static_cast<C>(width - 1) && y >= 0 &&
                    y < static_cast<C>(height - 1) && height <= INT32_MAX && width <= INT32_MAX;
  if (!are_within) return false;
  auto column = static_cast<int32_t>(x), row = static_cast<int32_t>(y);
  C right = x - static_cast<C>(column), below = y - static_cast<C>(row);
  int64_t at = row * width + column;
  taps[0] = {at, (1 - below) * (1 - right)};
  taps[1] = {at + 1, (1 - below) * right};
  taps[2] = {at + width, below * (1 - right)};
  taps[3] = {at + width + 1, below * right};
  return true;
}

template <class C>
void sample_image(C* out, const C* image, const C* grid, const SampledShape& shape,
                  const GridSettings& s) {
  int64_t plane = shape.sizes[0] * shape.sizes[1] * shape.sizes[2];
  parallel_for(0, shape.positions, 256, [&](int64_t lo, int64_t hi) {
    Tap<C> taps[16];
    for (int64_t p = lo; p < hi; ++p) {
      const C* position = grid + p * shape.n_space;
      if (inner_taps(position, shape, s, taps)) {
        for (int64_t c = 0; c < shape.channels; ++c) {
          const C* from = image + c * plane;
          out[c * shape.positions + p] =
              C(0) + taps[0].weight * from[taps[0].offset] + taps[1].weight * from[taps[1].offset] +
              taps[2].weight * from[taps[2].offset] + taps[3].weight * from[taps[3].offset];
        }
        continue;
      }
      int64_t n = taps_at(position, shape, s, taps);
      for (int64_t c = 0; c < shape.channels; ++c) {
        C sum = 0;
        for (int64_t t = 0; t < n; ++t) sum += taps[t].weight * image[c * plane + taps[t].offset];
        out[c * shape.positions + p] = sum;
      }
    }
  });
}

TensorMeta grid_sampler_meta(const Tensor& input, const Tensor& grid, int64_t filter,
                             int64_t outside, bool) {
  int64_t rank = input.dim();
  require((rank == 4 || rank == 5) && grid.dim() == rank && sizes_match(grid.size(-1), rank - 2) &&
              sizes_match(input.size(0), grid.size(0)),
          "grid_sampler: an input [N, C, ...] and a grid [N, ..., 2 or 3] of one rank are "
          "expected, found shapes {} "
          "and {}",
          input.sizes(), grid.sizes());
  require(input.dtype() == grid.dtype() && is_floating(input.dtype()),
          "grid_sampler: input and grid need one floating dtype, found {} and {}", input.dtype(),
          grid.dtype());
  require(filter >= 0 && filter <= (rank == 4 ? 2 : 1) && outside >= 0 && outside <= 2,
          "grid_sampler: interpolation mode {} with padding mode {} is not defined for {} "
          "dimensions of space",
          filter, outside, rank - 2);
  Dims sizes{input.size(0), input.size(1)};
  for (int64_t d = 1; d + 1 < rank; ++d) sizes.push_back(grid.size(d));
  return contiguous_meta(list_of(sizes), input.dtype(), input.device());
}

void grid_sampler_kernel(Tensor& out, const Tensor& input, const Tensor& grid, int64_t filter,
                         int64_t outside, bool align_corners) {
  if (numel_of(out) == 0) return;
  Dtype dtype = input.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  Tensor x = converted(input, dtype), g = converted(grid, dtype);
  Tensor y = out.dtype() == dtype ? out : make_tensor(contiguous_meta(out.sizes(), dtype));
  SampledShape shape{input.dim() - 2, sizes_of(x)[1], 1};
  for (size_t d = 2; d < sizes_of(x).size(); ++d) {
    shape.sizes[d + 3 - sizes_of(x).size()] = sizes_of(x)[d];
    shape.positions *= sizes_of(out)[d];
  }
  auto run = [&]<class C>() {
    for (int64_t i = 0; i < sizes_of(x)[0]; ++i)
      sample_image(data_of<C>(y) + i * shape.channels * shape.positions,
                   data_of<C>(x) + i * strides_of(x)[0],
                   data_of<C>(g) + i * shape.positions * shape.n_space, shape,
                   GridSettings{filter, outside, align_corners});
  };
  if (dtype == Dtype::f64)
    run.template operator()<double>();
  else
    run.template operator()<float>();
  if (!y.is_same(out)) copy_elements(out, y);
}

// ---- the derivative

// The gradients of one image and its grid, both row-major; they are added to.
template <class C>
struct SampleGrads {
  const C *grad, *image, *grid;
  C *to_image, *to_grid;  // null where not wanted
};

template <class C>
void unsample_position(const SampleGrads<C>& g, const SampledShape& shape, const GridSettings& s,
                       int64_t p) {
  AxisTaps<C> axis[3];
  axis[0].add(0, C(1));
  for (int64_t d = 0; d < shape.n_space; ++d)
    axis[2 - d] =
        axis_taps(g.grid[p * shape.n_space + d], shape.sizes[static_cast<size_t>(2 - d)], s);
  int64_t plane = shape.sizes[0] * shape.sizes[1] * shape.sizes[2];
  for (int64_t i = 0; i < axis[0].n; ++i)
    for (int64_t j = 0; j < axis[1].n; ++j)
      for (int64_t k = 0; k < axis[2].n; ++k) {
        int64_t z = axis[0].at[i], y = axis[1].at[j], x = axis[2].at[k];
        if (z < 0 || y < 0 || x < 0) continue;
        int64_t at = (z * shape.sizes[1] + y) * shape.sizes[2] + x;
        C wz = axis[0].weight[i], wy = axis[1].weight[j], wx = axis[2].weight[k], dot = 0;
        for (int64_t c = 0; c < shape.channels; ++c) {
          C from = g.grad[c * shape.positions + p];
          if (g.to_image) g.to_image[c * plane + at] += from * wz * wy * wx;
          dot += from * g.image[c * plane + at];
        }
        if (!g.to_grid) continue;
        C* to = g.to_grid + p * shape.n_space;
        to[0] += dot * wz * wy * axis[2].slope[k];
        to[1] += dot * wz * axis[1].slope[j] * wx;
        if (shape.n_space == 3) to[2] += dot * axis[0].slope[i] * wy * wx;
      }
}

std::array<TensorMeta, 2> unsample_metas(const Tensor& grad, const Tensor& input,
                                         const Tensor& grid, int64_t filter, int64_t outside,
                                         bool align_corners, BoolList wanted) {
  require(wanted.size() == 2, "grid_sampler backward: output_mask must have 2 values, found {}",
          wanted.size());
  TensorMeta sampled = grid_sampler_meta(input, grid, filter, outside, align_corners);
  require_shape("grid_sampler backward", "grad_output", grad, list_of(sampled.sizes));
  TensorMeta image = contiguous_meta(input.sizes(), input.dtype(), input.device());
  image.defined = wanted[0];
  return {std::move(image), contiguous_meta(grid.sizes(), grid.dtype(), grid.device())};
}

void unsample_kernel(Tensor& to_input, Tensor& to_grid, const Tensor& grad, const Tensor& input,
                     const Tensor& grid, int64_t filter, int64_t outside, bool align_corners,
                     BoolList) {
  Dtype dtype = input.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  auto dense = [&](const Tensor& t) { return contiguous_of(converted(t, dtype)); };
  Tensor g = dense(grad), x = dense(input), positions = dense(grid);
  Tensor image = make_tensor(contiguous_meta(input.sizes(), dtype)),
         moves = make_tensor(contiguous_meta(grid.sizes(), dtype));
  fill_elements(image, 0);
  fill_elements(moves, 0);
  SampledShape shape{input.dim() - 2, sizes_of(x)[1], 1};
  for (size_t d = 2; d < sizes_of(x).size(); ++d) {
    shape.sizes[d + 3 - sizes_of(x).size()] = sizes_of(x)[d];
    shape.positions *= sizes_of(g)[d];
  }
  auto run = [&]<class C>() {
    int64_t plane = shape.sizes[0] * shape.sizes[1] * shape.sizes[2];
    parallel_for(0, sizes_of(x)[0], 1, [&](int64_t lo, int64_t hi) {
      for (int64_t i = lo; i < hi; ++i) {
        int64_t at = i * shape.channels * plane, p0 = i * shape.positions * shape.n_space;
        SampleGrads<C> grads{data_of<C>(g) + i * shape.channels * shape.positions,
                             data_of<C>(x) + at, data_of<C>(positions) + p0,
                             to_input.defined() ? data_of<C>(image) + at : nullptr,
                             data_of<C>(moves) + p0};
        for (int64_t p = 0; p < shape.positions; ++p)
          unsample_position(grads, shape, GridSettings{filter, outside, align_corners}, p);
      }
    });
  };
  if (dtype == Dtype::f64)
    run.template operator()<double>();
  else
    run.template operator()<float>();
  if (to_input.defined()) copy_elements(to_input, image);
  copy_elements(to_grid, moves);
}

// ---- affine grids

// Positions -1 to 1 of n points; without align_corners the middles of n equal parts.
Tensor evenly(SymInt n, const Tensor& like, bool align_corners) {
  Dtype dtype = like.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  Tensor i = arange(Number(n), dtype, std::nullopt, like.device());
  if (!align_corners) return sub(div(add(mul(i, 2.0), 1.0), Number(n)), 1.0);
  std::optional<bool> is_single = decided(n == 1);
  if (is_single.value_or(false)) return mul(i, 0.0);
  Number first = is_single ? Number(1.0) : Number(sym_min(n - 1, 1));  // a single point is at 0
  return sub(div(mul(i, 2.0), Number(sym_max(n - 1, 1))), first);
}

// Points of the result in homogeneous coordinates (x, y, z, 1), multiplied by theta.
Tensor affine_grid_decomp(const Tensor& theta, SymIntList size, bool align_corners) {
  size_t n = size.size() - 2;
  require((n == 2 || n == 3) && theta.dim() == 3,
          "affine_grid_generator: theta [N, 2, 3] with 4 sizes or [N, 3, 4] with 5 is expected, "
          "found shape {} and {}",
          theta.sizes(), size);
  std::vector<Tensor> axes, parts;
  for (size_t d = 0; d < n; ++d) axes.push_back(evenly(size[d + 2], theta, align_corners));
  std::vector<Tensor> grids = meshgrid(axes, "ij");
  for (size_t d = n; d-- > 0;) parts.push_back(reshape(grids[d], {-1}));
  parts.push_back(ones_like(parts[0]));
  Tensor points = to(stack(parts, -1), theta.dtype());
  Dims sizes{size[0]};
  for (size_t d = 0; d < n; ++d) sizes.push_back(size[d + 2]);
  sizes.push_back(static_cast<int64_t>(n));
  return view(matmul(points, transpose(theta, 1, 2)), list_of(sizes));
}

}  // namespace

static constexpr OpDef nn_grid_sampler_rows[] = {
    {.schema =
         "grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "
         "bool align_corners) -> Tensor",
     .core = true,
     .meta = fn<grid_sampler_meta>,
     .eager = fn<grid_sampler_kernel>,
     .vjp = {{"input, grid",
              "grad, input, grid, interpolation_mode, padding_mode, align_corners, needs",
              fn<grid_sampler_2d_backward>}},
     .autocast = Autocast::fp32},
    {.schema =
         "grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "
         "bool align_corners) -> Tensor",
     .meta = fn<grid_sampler_meta>,
     .eager = fn<grid_sampler_kernel>,
     .vjp = {{"input, grid",
              "grad, input, grid, interpolation_mode, padding_mode, align_corners, needs",
              fn<grid_sampler_3d_backward>}},
     .autocast = Autocast::fp32},
    {.schema = "grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "
               "bool align_corners) -> Tensor",
     .decomp =
         [](const Tensor& input, const Tensor& grid, int64_t filter, int64_t outside,
            bool align_corners) {
           return input.dim() == 5 ? grid_sampler_3d(input, grid, filter, outside, align_corners)
                                   : grid_sampler_2d(input, grid, filter, outside, align_corners);
         },
     .autocast = Autocast::fp32},
    {.schema = "grid_sampler_2d_backward(Tensor grad_output, Tensor input, Tensor grid, int "
               "interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> "
               "(Tensor, Tensor)",
     .core = true,
     .meta = fn<unsample_metas>,
     .eager = fn<unsample_kernel>,
     .decomp = fn<unsample_parts>},
    {.schema = "grid_sampler_3d_backward(Tensor grad_output, Tensor input, Tensor grid, int "
               "interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> "
               "(Tensor, Tensor)",
     .core = true,
     .meta = fn<unsample_metas>,
     .eager = fn<unsample_kernel>,
     .decomp = fn<unsample_parts>},
    {.schema = "affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor",
     .decomp = fn<affine_grid_decomp>},
};

extern constinit const OpFamily op_family_nn_grid_sampler{nn_grid_sampler_rows};

}  // namespace tenon::ops
