// Resampling by tables of taps.
//
// Model: along each dimension a result is a weighted sum of few inputs (taps): one for nearest, two
//   for linear, four for cubic, and as many as the shrunk filter covers with antialiasing. Two and
//   three dimensions are the product of the one-dimensional filters.
// Method: taps of each dimension are tabulated once. The last dimension is resampled element by
//   element, the others by adding up whole rows (weighted). The first is what costs, so it is done
//   for as few rows as can be: for those of the result behind the adding up, or, where the result
//   has more rows, for those of the input before it; these are kept until no row of the result
//   needs them.
// Cost: min(rows of the input, rows of the result) * width * taps, and the sums of rows.
// Positions, scales and clamping follow ATen, with positions in f32 (f64 for f64 inputs).
#include "ops/nn/resample.h"

#include "core/kernels/level_table.h"
#include "core/threads/thread_pool.h"
#include "ops/kernel_loops.h"
#include "ops/shapes.h"

#include <algorithm>
#include <cmath>

namespace tenon::ops {

namespace {

template <class C>
struct Taps {
  int64_t per = 1;             // taps of one result; missing ones have weight 0
  std::vector<int64_t> index;  // per * results
  std::vector<C> weight;
  int64_t results() const { return static_cast<int64_t>(index.size()) / per; }
};

struct Axis {
  int64_t in = 1, out = 1;
  std::optional<double> factor;
};

// A longer step leads beyond every input, too, and a position must be an integer of 64 bits.
constexpr double longest_step = 0x1p31;

template <class C>
C step_of(const Axis& a, bool align_corners) {
  if (align_corners) return a.out > 1 ? static_cast<C>(a.in - 1) / static_cast<C>(a.out - 1) : C(0);
  if (a.factor && *a.factor > 0) return static_cast<C>(std::min(1 / *a.factor, longest_step));
  return static_cast<C>(a.in) / static_cast<C>(a.out);
}

int64_t nearest_index(const Axis& a, int64_t i, bool exact) {
  if (!exact && a.in == a.out) return i;
  if (!exact && a.out == 2 * a.in) return i >> 1;
  float step = step_of<float>(a, false), at = static_cast<float>(i) + (exact ? 0.5f : 0.0f);
  return std::min(static_cast<int64_t>(std::floor(at * step)), a.in - 1);
}

template <class C>
C position(C step, int64_t i, bool align_corners, bool cubic) {
  if (align_corners) return step * static_cast<C>(i);
  C at = step * (static_cast<C>(i) + C(0.5)) - C(0.5);
  return at < 0 && !cubic ? C(0) : at;
}

// Keys' cubic filter at distance x, a = -0.75 (-0.5 with antialiasing).
template <class C>
C cubic_weight(C x, C a) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : C(0);
}

template <class C>
Taps<C> linear_taps(const Axis& a, bool align_corners) {
  Taps<C> t{2, {}, {}};
  C step = step_of<C>(a, align_corners);
  for (int64_t i = 0; i < a.out; ++i) {
    C at = position(step, i, align_corners, false);
    int64_t first = std::min(static_cast<int64_t>(at), a.in - 1);
    C part = std::clamp(at - static_cast<C>(first), C(0), C(1));
    t.index.insert(t.index.end(), {first, std::min(first + 1, a.in - 1)});
    t.weight.insert(t.weight.end(), {1 - part, part});
  }
  return t;
}

template <class C>
Taps<C> cubic_taps(const Axis& a, bool align_corners) {
  Taps<C> t{4, {}, {}};
  C step = step_of<C>(a, align_corners);
  for (int64_t i = 0; i < a.out; ++i) {
    C at = position(step, i, align_corners, true), floor = std::floor(at), part = at - floor;
    for (int64_t k = -1; k < 3; ++k) {
      t.index.push_back(std::clamp<int64_t>(static_cast<int64_t>(floor) + k, 0, a.in - 1));
      t.weight.push_back(cubic_weight(part - static_cast<C>(k), C(-0.75)));
    }
  }
  return t;
}

// The filter is stretched over the inputs that one result covers.
template <class C>
Taps<C> smooth_taps(const Axis& a, bool align_corners, bool cubic) {
  C step = step_of<C>(a, align_corners), stretch = std::max(step, C(1));
  C support = (cubic ? 2 : 1) * stretch;
  Taps<C> t{std::min(static_cast<int64_t>(std::ceil(support)) * 2 + 1, a.in), {}, {}};
  for (int64_t i = 0; i < a.out; ++i) {
    C center = step * (static_cast<C>(i) + C(0.5)), sum = 0;
    int64_t first = std::max<int64_t>(static_cast<int64_t>(center - support + C(0.5)), 0);
    int64_t n = std::clamp<int64_t>(
        std::min(static_cast<int64_t>(center + support + C(0.5)), a.in) - first, 0, t.per);
    for (int64_t k = 0; k < t.per; ++k) {
      C x = (static_cast<C>(k + first) - center + C(0.5)) / stretch;
      C weight = k >= n ? C(0) : cubic ? cubic_weight(x, C(-0.5)) : std::max(C(0), 1 - std::abs(x));
      t.index.push_back(std::min(first + k, a.in - 1));
      t.weight.push_back(weight);
      sum += weight;
    }
    for (int64_t k = 0; k < t.per && sum != 0; ++k)
      t.weight[t.weight.size() - 1 - static_cast<size_t>(k)] /= sum;
  }
  return t;
}

template <class C>
Taps<C> taps_of(const Axis& a, const Resampling& r) {
  bool cubic = r.kind == Interpolation::cubic;
  if (r.antialias) return smooth_taps<C>(a, r.align_corners, cubic);
  return cubic ? cubic_taps<C>(a, r.align_corners) : linear_taps<C>(a, r.align_corners);
}

std::array<Axis, 3> axes_of(const Tensor& out, const Tensor& self, const Resampling& r) {
  std::array<Axis, 3> axes;
  for (size_t d = 0; d < r.n; ++d) {
    size_t at = static_cast<size_t>(self.dim()) - r.n + d;
    axes[3 - r.n + d] = {sizes_of(self)[at], sizes_of(out)[at], r.scales[d]};
  }
  return axes;
}

// ---- weighted

template <class C>
struct TapTables {
  std::array<Taps<C>, 3> taps;
  std::array<Axis, 3> axes;
};

template <class C>
Taps<C> nearest_taps(const Axis& a, bool exact) {
  Taps<C> t{1, {}, {}};
  for (int64_t i = 0; i < a.out; ++i) {
    t.index.push_back(nearest_index(a, i, exact));
    t.weight.push_back(C(1));
  }
  return t;
}

template <class C>
TapTables<C> tables_of(const std::array<Axis, 3>& axes, const Resampling& r) {
  bool nearest = r.kind == Interpolation::nearest || r.kind == Interpolation::nearest_exact;
  TapTables<C> t{{}, axes};
  for (size_t d = 0; d < 3; ++d) {
    if (d + r.n < 3)
      t.taps[d] = {1, {0}, {C(1)}};
    else
      t.taps[d] = nearest ? nearest_taps<C>(axes[d], r.kind == Interpolation::nearest_exact)
                          : taps_of<C>(axes[d], r);
  }
  return t;
}

template <class C, int64_t per>
void resample_row_by(const Taps<C>& taps, const C* row, C* out) {
  const int64_t* index = taps.index.data();
  const C* weight = taps.weight.data();
  int64_t n = per == 0 ? taps.per : per;
  for (int64_t i = 0; i < taps.results(); ++i, index += n, weight += n) {
    C sum = 0;
    for (int64_t k = 0; k < n; ++k) sum += weight[k] * row[index[k]];
    out[i] = sum;
  }
}

template <class C>
void resample_row(const Taps<C>& taps, const C* row, C* out) {
  switch (taps.per) {
    case 2:
      return resample_row_by<C, 2>(taps, row, out);
    case 4:
      return resample_row_by<C, 4>(taps, row, out);
    default:
      return resample_row_by<C, 0>(taps, row, out);
  }
}

/// Makes rows of results, on one thread.
template <class C>
class RowMaker {
 public:
  explicit RowMaker(const TapTables<C>& t)
      : t_(t), rows_(t.axes[0].in * t.axes[1].in), keeps_(t.axes[0].out * t.axes[1].out > rows_) {
    int64_t places = t.taps[0].per * t.taps[1].per;
    length_ = keeps_ ? t.axes[2].out : t.axes[2].in;
    kept_.resize(static_cast<size_t>((keeps_ ? places : 1) * length_));
    if (keeps_) owners_.assign(static_cast<size_t>(places), -1);
    sources_.reserve(static_cast<size_t>(places));
    weights_.reserve(static_cast<size_t>(places));
  }

  /// The row of a plane of the result, the planes' inputs lying behind one another in `in`.
  void make(const C* in, int64_t plane, int64_t depth, int64_t height, C* out) {
    find_sources(in, plane, depth, height);
    if (keeps_) return add_up(out);
    add_up(kept_.data());
    resample_row(t_.taps[2], kept_.data(), out);
  }

 private:
  void find_sources(const C* in, int64_t plane, int64_t depth, int64_t height) {
    const auto &d = t_.taps[0], &h = t_.taps[1];
    sources_.clear(), weights_.clear();
    for (int64_t i = depth * d.per; i < (depth + 1) * d.per; ++i)
      for (int64_t j = height * h.per; j < (height + 1) * h.per; ++j) {
        auto x = static_cast<size_t>(i), y = static_cast<size_t>(j);
        C weight = d.weight[x] * h.weight[y];
        if (weight == 0) continue;
        int64_t row = plane * rows_ + d.index[x] * t_.axes[1].in + h.index[y];
        int64_t place = d.index[x] % d.per * h.per + h.index[y] % h.per;
        const C* source = in + row * t_.axes[2].in;
        sources_.push_back(keeps_ ? resampled(row, place, source) : source);
        weights_.push_back(weight);
      }
  }
  // Taps of one result are neighbours: each has a place of its own and stays for the next row.
  const C* resampled(int64_t row, int64_t place, const C* source) {
    C* to = kept_.data() + place * length_;
    int64_t& owner = owners_[static_cast<size_t>(place)];
    if (owner != row) resample_row(t_.taps[2], source, to);
    owner = row;
    return to;
  }
  void add_up(C* out) const {
    kernels::row_level<C>().weighted_sum(out, length_, sources_.data(), weights_.data(),
                                         static_cast<int64_t>(sources_.size()), C(0));
  }

  const TapTables<C>& t_;
  const int64_t rows_;  // of an input plane
  const bool keeps_;    // input rows, resampled, until the next row of the result
  int64_t length_ = 0;
  std::vector<C> kept_;
  std::vector<int64_t> owners_;  // by place: the input row that it has
  std::vector<const C*> sources_;
  std::vector<C> weights_;
};

template <class C>
void resample_planes(C* out, const C* in, int64_t planes, const TapTables<C>& t) {
  const auto& a = t.axes;
  int64_t rows = a[0].out * a[1].out, work = std::max<int64_t>(1, a[2].in + a[2].out);
  parallel_for(0, planes * rows, std::max<int64_t>(1, 8192 / work), [&](int64_t lo, int64_t hi) {
    RowMaker<C> maker(t);
    for (int64_t r = lo; r < hi; ++r) {
      int64_t at = r % rows;
      maker.make(in, r / rows, at / a[1].out, at % a[1].out, out + r * a[2].out);
    }
  });
}

void resample_weighted(const Tensor& out, const Tensor& self, const Resampling& r) {
  Dtype dtype = self.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  Tensor x = converted(self, dtype);
  bool direct = out.dtype() == dtype && out.is_contiguous();
  Tensor y = direct ? out : make_tensor(contiguous_meta(out.sizes(), dtype));
  auto run = [&]<class C>() {
    TapTables<C> t = tables_of<C>(axes_of(out, self, r), r);
    int64_t plane = t.axes[0].out * t.axes[1].out * t.axes[2].out;
    resample_planes(data_of<C>(y), data_of<C>(x), numel_of(y) / plane, t);
  };
  if (dtype == Dtype::f64)
    run.template operator()<double>();
  else
    run.template operator()<float>();
  if (!direct) copy_elements(out, y);
}

// ---- nearest

void resample_nearest(const Tensor& out, const Tensor& self, const Resampling& r) {
  std::array<Axis, 3> axes = axes_of(out, self, r);
  std::array<std::vector<int64_t>, 3> from;
  std::array<int64_t, 3> in_steps{}, out_steps{};
  for (size_t d = 0; d < 3; ++d) {
    size_t at = static_cast<size_t>(self.dim()) + d - 3;
    bool present = d + r.n >= 3;
    in_steps[d] = present ? strides_of(self)[at] : 0;
    out_steps[d] = present ? strides_of(out)[at] : 0;
    for (int64_t i = 0; i < axes[d].out; ++i)
      from[d].push_back(
          present ? nearest_index(axes[d], i, r.kind == Interpolation::nearest_exact) * in_steps[d]
                  : 0);
  }
  Walk<2> planes;
  for (size_t d = 0; d + r.n < static_cast<size_t>(self.dim()); ++d)
    planes.add(sizes_of(self)[d], {strides_of(self)[d], strides_of(out)[d]});
  std::vector<Offsets<2>> starts;
  for_each_offset(planes, [&](const Offsets<2>& at) { starts.push_back(at); });
  int64_t work = std::max<int64_t>(1, axes[0].out * axes[1].out * axes[2].out);
  dispatch_itemsize(self.dtype(), [&]<class T>() {
    parallel_for(0, static_cast<int64_t>(starts.size()), std::max<int64_t>(1, 16384 / work),
                 [&](int64_t lo, int64_t hi) {
                   for (int64_t p = lo; p < hi; ++p)
                     for (int64_t i = 0; i < axes[0].out; ++i)
                       for (int64_t j = 0; j < axes[1].out; ++j) {
                         const T* row = data_of<T>(self) + starts[static_cast<size_t>(p)][0] +
                                        from[0][static_cast<size_t>(i)] +
                                        from[1][static_cast<size_t>(j)];
                         T* to = data_of<T>(out) + starts[static_cast<size_t>(p)][1] +
                                 i * out_steps[0] + j * out_steps[1];
                         for (int64_t k = 0; k < axes[2].out; ++k)
                           to[k * out_steps[2]] = row[from[2][static_cast<size_t>(k)]];
                       }
                 });
  });
}

// ---- derivatives

// A row of gradients goes back along the last dimension first, then to all rows it came from.
template <class C>
void spread_plane(C* in, const C* grad, const TapTables<C>& t, std::vector<C>& row) {
  const auto &d = t.taps[0], &h = t.taps[1], &w = t.taps[2];
  auto at = [](int64_t i) { return static_cast<size_t>(i); };
  for (int64_t z = 0; z < d.results(); ++z)
    for (int64_t y = 0; y < h.results(); ++y) {
      std::fill(row.begin(), row.end(), C(0));
      for (int64_t x = 0; x < w.results(); ++x, ++grad)
        for (int64_t k = x * w.per; k < (x + 1) * w.per; ++k)
          row[at(w.index[at(k)])] += w.weight[at(k)] * *grad;
      for (int64_t i = z * d.per; i < (z + 1) * d.per; ++i)
        for (int64_t j = y * h.per; j < (y + 1) * h.per; ++j) {
          C weight = d.weight[at(i)] * h.weight[at(j)];
          C* to = in + (d.index[at(i)] * t.axes[1].in + h.index[at(j)]) * t.axes[2].in;
          for (int64_t k = 0; weight != 0 && k < t.axes[2].in; ++k) to[k] += weight * row[at(k)];
        }
    }
}

}  // namespace

void resample(const Tensor& out, const Tensor& self, const Resampling& r) {
  if (numel_of(out) == 0) return;
  if (r.kind == Interpolation::nearest || r.kind == Interpolation::nearest_exact)
    return resample_nearest(out, self, r);
  resample_weighted(out, self, r);
}

void resample_backward(const Tensor& grad_input, const Tensor& grad, const Resampling& r) {
  Dtype dtype = grad.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  Tensor g = contiguous_of(converted(grad, dtype));
  Tensor sums = make_tensor(contiguous_meta(grad_input.sizes(), dtype));
  fill_elements(sums, 0);
  auto run = [&]<class C>() {
    TapTables<C> t = tables_of<C>(axes_of(grad, grad_input, r), r);
    int64_t in = t.axes[0].in * t.axes[1].in * t.axes[2].in,
            out = t.axes[0].out * t.axes[1].out * t.axes[2].out;
    if (in == 0 || out == 0) return;
    parallel_for(0, numel_of(g) / out, std::max<int64_t>(1, 8192 / out),
                 [&](int64_t lo, int64_t hi) {
                   std::vector<C> row(static_cast<size_t>(t.axes[2].in));
                   for (int64_t p = lo; p < hi; ++p)
                     spread_plane(data_of<C>(sums) + p * in, data_of<C>(g) + p * out, t, row);
                 });
  };
  if (dtype == Dtype::f64)
    run.template operator()<double>();
  else
    run.template operator()<float>();
  copy_elements(grad_input, sums);
}

}  // namespace tenon::ops
