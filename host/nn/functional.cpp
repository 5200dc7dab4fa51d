// Functions over ops: what torch and torch.nn.functional do in Python before they call one.
#include "core/sym/sym_int.h"

#include <tenon/functional.h>
#include <tenon/ops/index.h>
#include <tenon/ops/nn.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/tree.h>

#include <algorithm>
#include <iterator>

namespace tenon {

bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan,
              std::source_location where) {
  return isclose(a, b, rtol, atol, equal_nan).all().item<bool>(where).value();
}

Tensor unique(const Tensor& self, bool sorted) { return std::get<0>(_unique2(self, sorted)); }

std::tuple<Tensor, Tensor, Tensor> unique(const Tensor& self, bool sorted, bool return_inverse,
                                          bool return_counts, std::optional<int64_t> dim) {
  return dim ? unique_dim(self, *dim, sorted, return_inverse, return_counts)
             : _unique2(self, sorted, return_inverse, return_counts);
}

// ---- interpolate

namespace {

/// Where the result's sizes come from: one of the two is given.
struct Target {
  std::vector<SymInt> size;
  std::vector<double> factors;
  OptSymIntList sizes() const {
    return size.empty() ? OptSymIntList() : OptSymIntList(SymIntList(List<SymInt>(size)));
  }
  OptDoubleList scales() const {
    return factors.empty() ? OptDoubleList() : OptDoubleList(DoubleList(factors));
  }
};

template <class T>
std::vector<T> one_a_dimension(std::vector<T> given, size_t dims) {
  if (given.size() == 1) given.resize(dims, given[0]);
  return given;
}

std::vector<SymInt> scaled_sizes(const Tensor& x, const std::vector<double>& factors) {
  std::vector<SymInt> out;
  for (size_t d = 0; d < factors.size(); ++d)
    out.push_back(
        sym_round(SymOp::floor_to_int, x.size(static_cast<int64_t>(d) + 2) * SymFloat(factors[d])));
  return out;
}

Target target_of(const Tensor& x, const InterpolateOptions& options) {
  require(options.size.empty() != options.scale_factor.empty(),
          "interpolate: expected a size or a scale_factor, found {}",
          options.size.empty() ? "none" : "both");
  auto dims = static_cast<size_t>(std::max<int64_t>(x.dim() - 2, 0));
  Target to{one_a_dimension(options.size, dims), one_a_dimension(options.scale_factor, dims)};
  size_t found = to.size.size() + to.factors.size();
  require(found == dims && dims >= 1 && dims <= 3,
          "interpolate: expected a size or factor for each dimension behind batch and channels, "
          "found {} for {}",
          found, x);
  // An area is that of whole elements, so its factors are those of the sizes.
  if (to.size.empty() && (options.recompute_scale_factor || options.mode == "area"))
    to = {scaled_sizes(x, to.factors), {}};
  return to;
}

using Sampler = Tensor (*)(const Tensor& x, const Target& to, bool align_corners, bool antialias);

/// A mode, and what does it for tensors of so many dimensions.
struct Mode {
  std::string_view name;
  int64_t dims;
  bool has_corners;
  Sampler sample;
};

using Picked = Tensor (*)(const Tensor&, OptSymIntList, OptDoubleList);
using Weighted = Tensor (*)(const Tensor&, OptSymIntList, bool, OptDoubleList);

template <Picked f>
Tensor pick(const Tensor& x, const Target& to, bool, bool) {
  return f(x, to.sizes(), to.scales());
}
template <Weighted f, Weighted smooth = f>
Tensor weigh(const Tensor& x, const Target& to, bool corners, bool antialias) {
  return (antialias ? smooth : f)(x, to.sizes(), corners, to.scales());
}
Tensor average(const Tensor& x, const Target& to, bool, bool) {
  if (x.dim() == 3) return adaptive_avg_pool1d(x, {to.size[0].guard_int()});
  return x.dim() == 4 ? adaptive_avg_pool2d(x, *to.sizes()) : adaptive_avg_pool3d(x, *to.sizes());
}

constexpr Mode modes[] = {
    {"nearest", 3, false, pick<upsample_nearest1d>},
    {"nearest", 4, false, pick<upsample_nearest2d>},
    {"nearest", 5, false, pick<upsample_nearest3d>},
    {"nearest-exact", 3, false, pick<_upsample_nearest_exact1d>},
    {"nearest-exact", 4, false, pick<_upsample_nearest_exact2d>},
    {"nearest-exact", 5, false, pick<_upsample_nearest_exact3d>},
    {"area", 3, false, average},
    {"area", 4, false, average},
    {"area", 5, false, average},
    {"linear", 3, true, weigh<upsample_linear1d>},
    {"bilinear", 4, true, weigh<upsample_bilinear2d, _upsample_bilinear2d_aa>},
    {"bicubic", 4, true, weigh<upsample_bicubic2d, _upsample_bicubic2d_aa>},
    {"trilinear", 5, true, weigh<upsample_trilinear3d>},
};

const Mode& mode_for(const Tensor& x, std::string_view name) {
  auto has_name = [&](const Mode& m) { return m.name == name; };
  const Mode* first = std::ranges::find_if(modes, has_name);
  require(first != std::end(modes),
          "interpolate: expected nearest, nearest-exact, area, linear, bilinear, bicubic or "
          "trilinear as mode, found {}",
          name);
  const Mode* found =
      std::ranges::find_if(modes, [&](const Mode& m) { return has_name(m) && m.dims == x.dim(); });
  require(found != std::end(modes), "interpolate: {} takes tensors of {} dimensions, found {}",
          name, first->dims, x);
  return *found;
}

int64_t place_in(std::string_view what, std::string_view name,
                 std::initializer_list<std::string_view> names) {
  const std::string_view* at = std::ranges::find(names, name);
  require(at != names.end(), "grid_sample: expected {}, {} or {} as {}, found {}", names.begin()[0],
          names.begin()[1], names.begin()[2], what, name);
  return at - names.begin();
}

}  // namespace

Tensor interpolate(const Tensor& input, const InterpolateOptions& options) {
  Target to = target_of(input, options);
  const Mode& mode = mode_for(input, options.mode);
  require(mode.has_corners || !options.align_corners,
          "interpolate: align_corners is not for {}; leave it out, or choose a linear mode",
          mode.name);
  require(!options.antialias || mode.name == "bilinear" || mode.name == "bicubic",
          "interpolate: antialias is for bilinear and bicubic, found {}", mode.name);
  return mode.sample(input, to, options.align_corners.value_or(false), options.antialias);
}

// The numbers are ATen's.
Tensor grid_sample(const Tensor& input, const Tensor& grid, std::string_view mode,
                   std::string_view padding_mode, bool align_corners) {
  return grid_sampler(input, grid, place_in("mode", mode, {"bilinear", "nearest", "bicubic"}),
                      place_in("padding_mode", padding_mode, {"zeros", "border", "reflection"}),
                      align_corners);
}

Tensor affine_grid(const Tensor& theta, SymIntList size, bool align_corners) {
  return affine_grid_generator(theta, size, align_corners);
}

}  // namespace tenon
