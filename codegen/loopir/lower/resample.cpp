// Upsampling of the last one to three dimensions, and its gradient.
//
// Model: along each dimension a result is a weighted sum of few elements, its taps: one for
//   nearest, two for linear, four for cubic; more dimensions are products of that. Positions are
//   computed as ATen does, in f32 (f64 for f64), where they are needed; those of nearest that are a
//   plain division are found out when compiling.
// Method of the gradient: of known sizes, each element adds up the results that have it among their
//   taps. Those are neighbours, from a line on, as many as the largest such neighbourhood has (both
//   from a table made when compiling). Of other sizes each result adds to its taps.
#include "loopir/lower/scatter.h"

#include <algorithm>
#include <cmath>

namespace loopir {

using tenon::plugin::node;
using tenon::plugin::sv;

namespace {

enum class Kind { nearest, nearest_exact, linear, cubic };

struct Tap {
  Id position;  // index
  Id weight;    // value, or none for 1
};

/// One dimension that is stretched.
class Axis {
 public:
  Axis(Lowering& to, Kind kind, bool align_corners, int32_t dtype, Id in, Id out,
       std::optional<double> factor)
      : x_(to.x),
        kind_(kind),
        align_corners_(align_corners),
        dtype_(kind != Kind::nearest && kind != Kind::nearest_exact && dtype == TN_F64 ? TN_F64
                                                                                       : TN_F32),
        in_(settled(to.x, in)),
        out_(settled(to.x, out)),
        factor_(factor),
        copies_(kind == Kind::nearest && to.arguments.are_known_equal(in_, out_)) {
    ratio_ = plain_ratio();
  }

  /// The taps of result `o`.
  std::vector<Tap> taps(Id o) const {
    if (copies_) return {{o, none}};
    if (ratio_) return {{x_.floordiv(o, x_.constant(*ratio_)), none}};
    if (kind_ == Kind::nearest || kind_ == Kind::nearest_exact) return {nearest_tap(o)};
    return kind_ == Kind::linear ? linear_taps(o) : cubic_taps(o);
  }

  /// The results that may have an element among their taps: first + 0 ... count - 1.
  struct Users {
    Id first;
    int64_t count;
  };
  /// Those of element `j`; nothing where sizes are not known.
  std::optional<Users> users(Id j) const {
    if (copies_) return Users{j, 1};
    if (ratio_) return Users{x_.multiply(j, x_.constant(*ratio_)), *ratio_};
    auto in = x_.number_of(in_), out = x_.number_of(out_);
    constexpr int64_t largest = 4096;
    if (!in || !out || *in > largest || *out > largest) return std::nullopt;
    auto line = [&](int64_t at) { return at * *out / *in; };
    int64_t before = 0, after = 0;
    for (int64_t o = 0; o < *out; ++o)
      for (int64_t tap : known_taps(*in, *out, o)) {
        before = std::max(before, line(tap) - o);
        after = std::max(after, o - line(tap));
      }
    Id at = x_.floordiv(x_.multiply(j, out_), in_);
    return Users{x_.subtract(at, x_.constant(before)), before + after + 1};
  }
  Id out() const { return out_; }
  Id in() const { return in_; }

 private:
  // A symbol of which only one number is left is that number: other sizes of it are.
  static Id settled(Expressions& x, Id size) {
    Range range = x.range(size);
    return range.lower == range.upper ? x.constant(range.lower) : size;
  }

  // How far one result is from the next, in elements.
  template <class C>
  C known_step(int64_t in, int64_t out) const {
    if (align_corners_) return out > 1 ? C(in - 1) / C(out - 1) : C(0);
    if (factor_) return C(std::min(1 / *factor_, longest_step));
    return C(in) / C(out);
  }
  Id step() const {
    auto known = [&](int64_t in, int64_t out) {
      return x_.number(dtype_ == TN_F64 ? known_step<double>(in, out)
                                        : static_cast<double>(known_step<float>(in, out)),
                       dtype_);
    };
    auto in = x_.number_of(in_), out = x_.number_of(out_);
    if (in && out) return known(*in, *out);
    auto number = [&](Id size, int64_t less) {
      return x_.cast(x_.index_value(x_.subtract(size, x_.constant(less))), dtype_);
    };
    if (align_corners_) {
      Id steps = apply(TN_F_MAX, number(out_, 1), x_.number(1.0, dtype_));
      return apply(TN_F_DIV, number(in_, 1), steps);
    }
    if (factor_) return known(1, 1);
    return apply(TN_F_DIV, number(in_, 0), number(out_, 0));
  }

  int64_t known_nearest(int64_t in, int64_t out, int64_t o) const {
    bool exact = kind_ == Kind::nearest_exact;
    if (!exact && out == 2 * in) return o / 2;
    float at = (static_cast<float>(o) + (exact ? 0.5f : 0.0f)) * known_step<float>(in, out);
    return std::min(static_cast<int64_t>(std::floor(at)), in - 1);
  }
  /// Where the nearest element is o / ratio.
  std::optional<int64_t> plain_ratio() const {
    constexpr int64_t largest = 1 << 16;
    if (kind_ != Kind::nearest && kind_ != Kind::nearest_exact) return std::nullopt;
    if (kind_ == Kind::nearest && x_.multiply(in_, x_.constant(2)) == out_) return 2;
    auto in = x_.number_of(in_), out = x_.number_of(out_);
    if (!in || !out || *in < 1 || *out > largest || *out % *in) return std::nullopt;
    for (int64_t o = 0; o < *out; ++o)
      if (known_nearest(*in, *out, o) != o / (*out / *in)) return std::nullopt;
    return *out / *in;
  }

  // All positions that may be taps of o: a neighbour more on each side makes up for rounding.
  std::vector<int64_t> known_taps(int64_t in, int64_t out, int64_t o) const {
    if (kind_ == Kind::nearest || kind_ == Kind::nearest_exact) return {known_nearest(in, out, o)};
    double step = known_step<double>(in, out);
    auto at = static_cast<int64_t>(std::floor(align_corners_
                                                  ? step * static_cast<double>(o)
                                                  : step * (static_cast<double>(o) + 0.5) - 0.5));
    int64_t reach = kind_ == Kind::cubic ? 3 : 2;
    std::vector<int64_t> taps;
    for (int64_t k = -reach; k <= reach; ++k)
      taps.push_back(std::clamp<int64_t>(at + k, 0, in - 1));
    return taps;
  }

  Id apply(uint16_t code, Id a, Id b = none) const { return x_.apply(code, dtype_, a, b); }
  Id number(double n) const { return x_.number(n, dtype_); }
  Id as_number(Id o) const { return x_.cast(x_.index_value(o), dtype_); }

  /// A whole number as a position; what is beyond the ends is at the ends.
  Id position(Id whole) const {
    Id last = x_.index_value(x_.subtract(in_, x_.constant(1)));
    Id low = x_.apply(TN_F_MAX, TN_I64, x_.cast(whole, TN_I64), x_.number(int64_t{0}, TN_I64));
    Id at = x_.apply(TN_F_MIN, TN_I64, low, last);
    return x_.of_value(x_.value({value_checked, TN_I64, at, in_, none}));
  }
  Tap nearest_tap(Id o) const {
    Id at = as_number(o);
    if (kind_ == Kind::nearest_exact) at = apply(TN_F_ADD, at, number(0.5));
    Id whole = x_.cast(apply(TN_F_FLOOR, apply(TN_F_MUL, at, step())), TN_I64);
    bool is_known = x_.number_of(in_) && x_.number_of(out_);
    if (kind_ == Kind::nearest && factor_ && !is_known) whole = unless_plain(o, whole);
    return {position(whole), none};
  }
  // Equal and doubled sizes copy and double, whatever the factor is.
  Id unless_plain(Id o, Id whole) const {
    auto where_out_is = [&](Id size, Id position, Id other) {
      Id is_it = x_.apply(TN_F_EQ, TN_BOOL, x_.index_value(out_), x_.index_value(size));
      return x_.apply(TN_F_SELECT, TN_I64, is_it, x_.index_value(position), other);
    };
    Id two = x_.constant(2);
    return where_out_is(in_, o, where_out_is(x_.multiply(in_, two), x_.floordiv(o, two), whole));
  }
  /// Where result o lies among the elements.
  Id center(Id o) const {
    if (align_corners_) return apply(TN_F_MUL, step(), as_number(o));
    Id middle = apply(TN_F_ADD, as_number(o), number(0.5));
    return apply(TN_F_SUB, apply(TN_F_MUL, step(), middle), number(0.5));
  }
  std::vector<Tap> linear_taps(Id o) const {
    Id last = as_number(x_.subtract(in_, x_.constant(1)));
    Id at = apply(TN_F_MAX, center(o), number(0));
    Id first = apply(TN_F_MIN, apply(TN_F_TRUNC, at), last);
    Id part = apply(TN_F_SUB, at, first);
    part = apply(TN_F_MIN, apply(TN_F_MAX, part, number(0)), number(1));
    return {{position(first), apply(TN_F_SUB, number(1), part)},
            {position(apply(TN_F_ADD, first, number(1))), part}};
  }
  std::vector<Tap> cubic_taps(Id o) const {
    Id at = center(o), first = apply(TN_F_FLOOR, at), part = apply(TN_F_SUB, at, first);
    std::vector<Tap> out;
    for (int k = -1; k < 3; ++k)
      out.push_back(
          {position(apply(TN_F_ADD, first, number(k))),
           cubic_weight(apply(TN_F_ABS, apply(TN_F_SUB, part, number(k))), k == 0 || k == 1)});
    return out;
  }
  // Keys' filter with a = -0.75 at distance d.
  Id cubic_weight(Id d, bool is_inner) const {
    constexpr double a = -0.75;
    auto step = [&](Id sum, double c) {
      return apply(TN_F_ADD, apply(TN_F_MUL, sum, d), number(c));
    };
    if (is_inner) return step(step(step(number(a + 2), -(a + 3)), 0), 1);
    return step(step(step(number(a), -5 * a), 8 * a), -4 * a);
  }

  static constexpr double longest_step = 0x1p31;
  Expressions& x_;
  Kind kind_;
  bool align_corners_;
  int32_t dtype_;
  Id in_, out_;
  std::optional<double> factor_;
  bool copies_;
  std::optional<int64_t> ratio_;
};

/// Factors that are an argument each, from `first` on, or a list.
std::vector<std::optional<double>> factors_of(const node& n, size_t first, size_t n_space) {
  std::vector<std::optional<double>> out(n_space);
  const tn_arg& list = n.args[first];
  for (size_t d = 0; d < n_space; ++d) {
    const tn_arg& given = n.args[list.kind == TN_ARG_FLOATS ? first : first + d];
    double factor = given.kind == TN_ARG_NONE     ? 0
                    : given.kind == TN_ARG_FLOATS ? given.u.floats[d]
                                                  : number_arg(given);
    if (factor > 0) out[d] = factor;
    if (list.kind == TN_ARG_NONE && n.n_args == first + 1) break;
  }
  return out;
}

/// The axes of a node, whose arguments from `scales` on are the factors.
std::vector<Axis> axes_of(Lowering& to, const node& n, Kind kind, bool align_corners,
                          const Ids& in_sizes, const Ids& out_sizes, size_t scales) {
  std::vector<Axis> axes;
  int32_t dtype = to.tensor_arg(n.args[0]).dtype;
  auto factors = factors_of(n, scales, in_sizes.size() - 2);
  for (size_t d = 2; d < in_sizes.size(); ++d)
    axes.emplace_back(to, kind, align_corners, dtype, in_sizes[d], out_sizes[d], factors[d - 2]);
  return axes;
}

bool has_elements(Lowering& to, const Ids& sizes) {
  return std::all_of(sizes.begin() + 2, sizes.end(),
                     [&](Id size) { return to.x.range(size).lower > 0; });
}
bool is_weighted(Kind kind) { return kind == Kind::linear || kind == Kind::cubic; }

Id weighted(Expressions& x, int32_t dtype, Id value, Id weight) {
  if (weight == none) return value;
  return x.apply(TN_F_MUL, dtype, value, x.cast(weight, dtype));
}

/// The weighted sum of the taps in dimensions from `d` on.
Id sum_of_taps(Lowering& to, const Tensor& t, const std::vector<std::vector<Tap>>& taps,
               Ids& element, size_t d, int32_t dtype) {
  if (d == element.size()) return to.x.cast(to.at(t, element), dtype);
  Id sum = none;
  for (const Tap& tap : taps[d - 2]) {
    element[d] = tap.position;
    Id part = weighted(to.x, dtype, sum_of_taps(to, t, taps, element, d + 1, dtype), tap.weight);
    sum = sum == none ? part : to.x.apply(TN_F_ADD, dtype, sum, part);
  }
  return sum;
}

bool upsample(Lowering& to, const node& n, Kind kind) {
  Tensor from = to.tensor_arg(n.args[0]);
  auto v = to.info(n.first_result);
  bool weights = is_weighted(kind);
  if (weights ? !is_floating(from.dtype) : !is_computing(from.dtype)) return false;
  Ids sizes = to.arguments.indices_of(v.dims());
  if (!has_elements(to, from.sizes) || !has_elements(to, sizes)) return false;
  auto axes = axes_of(to, n, kind, weights && int_arg(n.args[2]), from.sizes, sizes, 2 + weights);
  from = to.cheap(from, std::string(sv(v.name)).c_str());
  int32_t dtype = weights ? compute_type(from.dtype) : from.dtype;
  to.set(n.first_result, to.make(v.dtype, sizes, [&](std::span<const Id> i) {
    std::vector<std::vector<Tap>> taps;
    for (size_t d = 2; d < i.size(); ++d) taps.push_back(axes[d - 2].taps(i[d]));
    Ids element(i.begin(), i.end());
    return to.x.cast(sum_of_taps(to, from, taps, element, 2, dtype), v.dtype);
  }));
  return true;
}

// ---- gradients

/// What result `o` takes from element `j`: the weights of its taps there.
Id share_of(Expressions& x, const Axis& axis, Id o, Id j, int32_t dtype) {
  Id sum = none;
  for (const Tap& tap : axis.taps(o)) {
    Id weight = tap.weight == none ? x.number(1.0, dtype) : x.cast(tap.weight, dtype);
    if (tap.position != j) {
      Id is_here = x.apply(TN_F_EQ, TN_BOOL, x.index_value(tap.position), x.index_value(j));
      weight = x.apply(TN_F_SELECT, dtype, is_here, weight, x.number(0.0, dtype));
    }
    sum = sum == none ? weight : x.apply(TN_F_ADD, dtype, sum, weight);
  }
  return sum;
}

/// Each element adds up what the results around it took; false where those are not known.
bool gather_gradient(Lowering& to, const node& n, const std::vector<Axis>& axes,
                     const Tensor& gradient, const Ids& sizes) {
  constexpr int64_t most_users = 1024;
  Expressions& x = to.x;
  int32_t dtype = compute_type(gradient.dtype), result = to.info(n.first_result).dtype;
  Ids points = variables_for(to, sizes), users, element = points;
  Id share = none, mask = none;
  int64_t count = 1;
  for (size_t d = 2; d < points.size(); ++d) {
    const Axis& axis = axes[d - 2];
    auto found = axis.users(points[d]);
    if (!found || (count *= found->count) > most_users) return false;
    users.push_back(x.variable(x.constant(found->count)));
    Id o = element[d] = x.add(found->first, users.back());
    auto both = [&](uint16_t code, Id bound) {
      Id ok = x.apply(code, TN_BOOL, x.index_value(o), x.index_value(bound));
      mask = mask == none ? ok : x.apply(TN_F_BAND, TN_BOOL, mask, ok);
    };
    if (x.range(o).lower < 0) both(TN_F_GE, x.constant(0));
    if (!x.is_less(o, axis.out())) both(TN_F_LT, axis.out());
    Id own = share_of(x, axis, o, points[d], dtype);
    share = share == none ? own : x.apply(TN_F_MUL, dtype, share, own);
  }
  Id value = to.at(gradient, element);
  if (mask != none) value = x.masked(value, mask);
  value = x.apply(TN_F_MUL, dtype, x.cast(value, dtype), share);
  if (mask != none) value = x.apply(TN_F_SELECT, dtype, mask, value, x.number(0.0, dtype));
  std::string name = to.name_of(n.first_result);
  Tensor sums = to.fold_over(points, users, Fold::sum, dtype, sizes, value, name);
  to.set(n.first_result, to.make(result, sizes, [&](std::span<const Id> i) {
    return x.cast(to.at(sums, i), result);
  }));
  return true;
}

/// Each result adds to its taps, a plane at a time.
void scatter_gradient(Lowering& to, const node& n, const std::vector<Axis>& axes,
                      const Tensor& gradient) {
  Expressions& x = to.x;
  Target target(to, n.first_result, Store::add);
  target.fill_with_zeros();
  Ids points = variables_for(to, gradient.sizes), outer{points[0], points[1]};
  Ids reduced(points.begin() + 2, points.end());
  std::vector<std::vector<Tap>> taps;
  size_t combinations = 1;
  for (size_t d = 2; d < points.size(); ++d) {
    taps.push_back(axes[d - 2].taps(points[d]));
    combinations *= taps.back().size();
  }
  for (size_t c = 0; c < combinations; ++c) {
    Ids element = points;
    Id value = x.cast(to.at(gradient, points), target.dtype);
    size_t rest = c;
    for (size_t d = 2; d < points.size(); ++d) {
      const Tap& tap = taps[d - 2][rest % taps[d - 2].size()];
      rest /= taps[d - 2].size();
      element[d] = tap.position;
      value = weighted(x, target.dtype, value, tap.weight);
    }
    target.write(Store::add, outer, reduced, value, element);
  }
  target.give();
}

bool upsample_backward(Lowering& to, const node& n, Kind kind) {
  Tensor gradient = to.tensor_arg(n.args[0]);
  auto v = to.info(n.first_result);
  if (!is_floating(gradient.dtype)) return false;
  Ids sizes = to.arguments.indices_of(v.dims());
  if (!has_elements(to, sizes) || !has_elements(to, gradient.sizes)) return false;
  bool weights = is_weighted(kind);
  auto axes =
      axes_of(to, n, kind, weights && int_arg(n.args[3]), sizes, gradient.sizes, 3 + weights);
  gradient = to.cheap(gradient, std::string(sv(v.name)).c_str());
  if (!gather_gradient(to, n, axes, gradient, sizes)) scatter_gradient(to, n, axes, gradient);
  return true;
}

template <Kind kind>
bool forward(Lowering& to, const node& n) {
  return upsample(to, n, kind);
}
template <Kind kind>
bool backward(Lowering& to, const node& n) {
  return upsample_backward(to, n, kind);
}

constexpr Rule resample_table[] = {
    {"aten.upsample_nearest1d.default", forward<Kind::nearest>},
    {"aten.upsample_nearest2d.default", forward<Kind::nearest>},
    {"aten.upsample_nearest3d.default", forward<Kind::nearest>},
    {"aten.upsample_nearest2d.vec", forward<Kind::nearest>},
    {"aten.upsample_bilinear2d.vec", forward<Kind::linear>},
    {"aten._upsample_nearest_exact1d.default", forward<Kind::nearest_exact>},
    {"aten._upsample_nearest_exact2d.default", forward<Kind::nearest_exact>},
    {"aten._upsample_nearest_exact3d.default", forward<Kind::nearest_exact>},
    {"aten.upsample_linear1d.default", forward<Kind::linear>},
    {"aten.upsample_bilinear2d.default", forward<Kind::linear>},
    {"aten.upsample_trilinear3d.default", forward<Kind::linear>},
    {"aten.upsample_bicubic2d.default", forward<Kind::cubic>},
    {"aten.upsample_nearest1d_backward.default", backward<Kind::nearest>},
    {"aten.upsample_nearest2d_backward.default", backward<Kind::nearest>},
    {"aten.upsample_nearest3d_backward.default", backward<Kind::nearest>},
    {"aten._upsample_nearest_exact1d_backward.default", backward<Kind::nearest_exact>},
    {"aten._upsample_nearest_exact2d_backward.default", backward<Kind::nearest_exact>},
    {"aten._upsample_nearest_exact3d_backward.default", backward<Kind::nearest_exact>},
    {"aten.upsample_linear1d_backward.default", backward<Kind::linear>},
    {"aten.upsample_bilinear2d_backward.default", backward<Kind::linear>},
    {"aten.upsample_trilinear3d_backward.default", backward<Kind::linear>},
    {"aten.upsample_bicubic2d_backward.default", backward<Kind::cubic>},
};

}  // namespace

std::span<const Rule> resample_rules() { return resample_table; }

}  // namespace loopir
