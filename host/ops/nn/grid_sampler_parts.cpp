// The derivative of grid_sampler as ops that can be differentiated again.
//
// Problem: the kernel of the derivative has none itself, and second derivatives ask for one.
// Model: with space and positions flattened, a tap of an axis is a place i(p), a weight w(p) and a
//   slope w'(p) by the normalized position; a tap of the image is one of each axis, with the
//   product W of the weights. Then sample(p) = sum over taps of W(p) image[i(p)], so that
//       grad image[i(p)] += W(p) grad(p),   grad grid_d(p) = sum W'_d(p) <grad(p), image[i(p)]>
//   where W'_d has the slope of axis d in the place of its weight.
// Method: weights are polynomials of the part of the position behind its floor, written in ops, so
//   the tape finds their slopes' slopes. Where the position is reflected it runs backwards, where
//   it is held at the border it stands still: `direction` is -1 or 0 there.
// Cost: taps^axes gathers and additions of [N, C, P] elements.
#include "ops/nn/grid_sampler_parts.h"

#include "core/sym/sym_int.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include <tenon/ops.h>

namespace tenon::ops {

namespace {

struct AxisSettings {
  SymInt size;
  int64_t filter, outside;
  bool align_corners;
};

struct TapParts {
  Tensor at, weight, slope;  // each [N, P]; weight and slope are 0 outside
};

struct Moved {
  Tensor position, direction;
};

Moved reflect(const Tensor& x, const AxisSettings& s) {
  SymInt span = s.align_corners ? s.size - 1 : s.size;
  if (decided(span == 0).value_or(false)) return {mul(x, 0), zeros_like(x)};
  span = sym_max(span, 1);  // of one point all positions are cut to 0 later
  double low = s.align_corners ? 0.0 : -0.5;
  Tensor distance = abs(sub(x, low)), turns = floor(div(distance, Number(span)));
  Tensor extra = sub(distance, mul(turns, Number(span)).detach());
  Tensor odd = ne(fmod(turns, 2), 0), back = logical_xor(lt(x, low), odd);
  return {add(where(odd, rsub(extra, Number(span)), extra), low),
          rsub(mul(to(back, x.dtype()), 2), 1)};
}

Moved moved_inside(const Tensor& x, const AxisSettings& s) {
  if (s.outside == as_zero) return {x, ones_like(x)};
  Moved m = s.outside == reflected ? reflect(x, s) : Moved{x, ones_like(x)};
  Tensor inside = logical_and(gt(m.position, 0), lt(m.position, Number(s.size - 1)));
  return {clamp(m.position, 0, Number(s.size - 1)), mul(m.direction, to(inside, x.dtype()))};
}

TapParts tap(const Tensor& place, const Tensor& weight, const Tensor& slope,
             const AxisSettings& s) {
  Tensor inside = logical_and(gt(place, -1), lt(place, Number(s.size)));
  Tensor at = to(clamp(where(inside, place, 0), 0, Number(s.size - 1)), Dtype::i64);
  return {at.detach(), where(inside, weight, 0), where(inside, slope, 0)};
}

// The cubic filter and its slope by the distance: up to 1, and from there to 2.
constexpr double a = -0.75;

Tensor near_weight(const Tensor& d) { return add(mul(mul(sub(mul(d, a + 2), a + 3), d), d), 1); }
Tensor near_slope(const Tensor& d) { return mul(sub(mul(d, 3 * (a + 2)), 2 * (a + 3)), d); }
Tensor far_weight(const Tensor& d) {
  return sub(mul(add(mul(sub(mul(d, a), 5 * a), d), 8 * a), d), 4 * a);
}
Tensor far_slope(const Tensor& d) { return add(mul(sub(mul(d, 3 * a), 10 * a), d), 8 * a); }

// `scale` is twice the rise of the position in elements.
std::vector<TapParts> cubic_taps(const Tensor& x, Number scale, const AxisSettings& s) {
  Tensor first = floor(x).detach(), part = sub(x, first);
  std::vector<TapParts> taps;
  for (int k = -1; k < 3; ++k) {
    bool before = k <= 0, far = k == -1 || k == 2;
    Tensor distance = before ? sub(part, k) : rsub(part, k);
    Tensor weight = far ? far_weight(distance) : near_weight(distance),
           slope = far ? far_slope(distance) : near_slope(distance);
    Tensor place = moved_inside(add(first, k), s).position;
    taps.push_back(tap(place, weight, mul(mul(slope, before ? 0.5 : -0.5), scale), s));
  }
  return taps;
}

std::vector<TapParts> linear_taps(const Moved& m, Number scale, const AxisSettings& s) {
  Tensor first = floor(m.position).detach(), part = sub(m.position, first),
         slope = mul(mul(m.direction, 0.5), scale);
  return {tap(first, rsub(part, 1), neg(slope), s), tap(add(first, 1), part, slope, s)};
}

std::vector<TapParts> axis_taps(const Tensor& normalized, const AxisSettings& s) {
  Number scale = s.align_corners ? Number(s.size - 1) : Number(s.size);
  Tensor x = mul(add(normalized, 1), 0.5);
  x = s.align_corners ? mul(x, scale) : sub(mul(x, scale), 0.5);
  if (s.filter == cubic_filter) return cubic_taps(x, scale, s);
  Moved m = moved_inside(x, s);
  if (s.filter == linear_filter) return linear_taps(m, scale, s);
  return {tap(round(m.position).detach(), ones_like(x), zeros_like(x), s)};
}

// The image's side of the call, with space and positions flattened.
struct Samples {
  Tensor grad, image, grid;     // [N, C, P], [N, C, S], [N, P, axes]
  Tensor to_image;              // sums so far, undefined where not wanted
  std::vector<Tensor> to_grid;  // of each axis

  // One tap of each axis, the slowest first.
  void add_tap(const std::vector<const TapParts*>& taps, SymIntList space) {
    Tensor at = taps[0]->at, weight = taps[0]->weight;
    for (size_t d = 1; d < taps.size(); ++d) {
      at = add(mul(at, Number(space[d])), taps[d]->at);
      weight = mul(weight, taps[d]->weight);
    }
    Tensor places = expand(unsqueeze(at, 1), grad.sizes());
    if (to_image.defined())
      to_image = scatter_add(to_image, 2, places, mul(grad, unsqueeze(weight, 1)));
    Tensor dot = sum(mul(grad, gather(image, 2, places)), {1});
    for (size_t d = 0; d < taps.size(); ++d) {
      Tensor change = mul(dot, taps[d]->slope);
      for (size_t e = 0; e < taps.size(); ++e)
        if (e != d) change = mul(change, taps[e]->weight);
      to_grid[d] = to_grid[d].defined() ? add(to_grid[d], change) : change;
    }
  }
};

}  // namespace

std::tuple<Tensor, Tensor> unsample_parts(const Tensor& grad, const Tensor& input,
                                          const Tensor& grid, int64_t filter, int64_t outside,
                                          bool align_corners, BoolList wanted) {
  Dtype dtype = input.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  size_t n = input.sizes().size() - 2;
  SymIntList space(input.sizes().data() + 2, n);
  Samples s{flatten(to(grad, dtype), 2), flatten(to(input, dtype), 2),
            flatten(to(grid, dtype), 1, -2), Tensor(), std::vector<Tensor>(n)};
  if (wanted[0]) s.to_image = zeros_like(s.image);
  std::vector<std::vector<TapParts>> axes;
  size_t combinations = 1;
  for (size_t d = 0; d < n; ++d) {
    Tensor position = select(s.grid, -1, static_cast<int64_t>(n - 1 - d));
    axes.push_back(axis_taps(position, {space[d], filter, outside, align_corners}));
    combinations *= axes.back().size();
  }
  for (size_t i = 0; i < combinations; ++i) {
    std::vector<const TapParts*> taps;
    size_t rest = i;
    for (const std::vector<TapParts>& axis : axes) {
      taps.push_back(&axis[rest % axis.size()]);
      rest /= axis.size();
    }
    s.add_tap(taps, space);
  }
  std::vector<Tensor> moves(s.to_grid.rbegin(), s.to_grid.rend());
  Tensor to_grid = to(reshape(stack(moves, -1), grid.sizes()), grid.dtype());
  if (!wanted[0]) return {Tensor(), to_grid};
  return {to(reshape(s.to_image, input.sizes()), input.dtype()), to_grid};
}

}  // namespace tenon::ops
