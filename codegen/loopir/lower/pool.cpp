// Pooling: maxima and means over windows. Small windows are one expression over all their
// positions, which loops vectorise over channels or columns; larger ones are folds.
#include "loopir/lower/windows.h"

#include <limits>

namespace loopir {

using tenon::plugin::node;

namespace {

const double lowest = -std::numeric_limits<double>::infinity();

Windows sliding(Lowering& to, const node& n, size_t n_space, std::vector<int64_t> dilation) {
  return Windows::sliding(to, to.tensor_arg(n.args[0]).sizes, to.sizes_of(n.first_result),
                          int_list(n.args[1], n_space), int_list(n.args[2]), int_list(n.args[3]),
                          dilation);
}

/// The position of the maximum in its plane: of the first of equal ones, and NaN beats all, as in
/// ATen, whose loop takes x > best or NaN.
Id position_of_maximum(Lowering& to, const Tensor& t, const Windows& w, std::span<const Id> i) {
  Expressions& x = to.x;
  int32_t dtype = compute_type(t.dtype);
  Id value = x.number(lowest, dtype), position = x.number(int64_t{-1}, TN_I64);
  bool has_one = false;  // whatever the elements are
  for (const Ids& offsets : tuples(x, w.offsets())) {
    Windows::Place place = w.element(i, offsets);
    Id e = read_at(to, t, place, dtype, lowest), here = x.index_value(w.position(place.element));
    Id better = x.apply(TN_F_BOR, TN_BOOL, x.apply(TN_F_GT, TN_BOOL, e, value),
                        x.apply(TN_F_NE, TN_BOOL, e, e));
    if (!has_one) {
      Id is_first = x.apply(TN_F_LT, TN_BOOL, position, x.number(int64_t{0}, TN_I64));
      if (place.condition != none)
        is_first = x.apply(TN_F_BAND, TN_BOOL, is_first, place.condition);
      better = x.apply(TN_F_BOR, TN_BOOL, better, is_first);
    }
    has_one |= place.condition == none;
    position = x.apply(TN_F_SELECT, TN_I64, better, here, position);
    value = x.apply(TN_F_SELECT, dtype, better, e, value);
  }
  return position;
}

bool max_over(Lowering& to, const node& n, const Windows& w) {
  Tensor t = to.tensor_arg(n.args[0]);
  uint32_t indices = n.first_result + 1;
  bool wants_positions = to.reads[indices] || to.is_output[indices];
  if (!is_floating(t.dtype) || (wants_positions && !is_few(to.x, w.offsets()))) return false;
  std::string name = to.name_of(n.first_result);
  t = to.cheap(t, name.c_str(), to.options.window_operations);
  int32_t dtype = compute_type(t.dtype);
  Ids sizes = to.sizes_of(n.first_result);
  Tensor best = folded_over(to, Fold::maximum, dtype, sizes, w.offsets(), name,
                            [&](std::span<const Id> i, std::span<const Id> offsets) {
                              return read_at(to, t, w.element(i, offsets), dtype, lowest);
                            });
  to.set(n.first_result, to.make(t.dtype, sizes, [&](std::span<const Id> i) {
    return to.x.cast(to.at(best, i), t.dtype);
  }));
  if (wants_positions)
    to.set(indices, to.make(TN_I64, sizes, [&](std::span<const Id> i) {
      return position_of_maximum(to, t, w, i);
    }));
  return true;
}

bool mean_over(Lowering& to, const node& n, const Windows& w, bool with_padding,
               std::optional<int64_t> divisor) {
  Tensor t = to.tensor_arg(n.args[0]);
  if (!is_floating(t.dtype)) return false;
  std::string name = to.name_of(n.first_result);
  t = to.cheap(t, name.c_str(), to.options.window_operations);
  Expressions& x = to.x;
  int32_t dtype = compute_type(t.dtype);
  Ids sizes = to.sizes_of(n.first_result);
  Tensor sums = folded_over(to, Fold::sum, dtype, sizes, w.offsets(), name,
                            [&](std::span<const Id> i, std::span<const Id> offsets) {
                              return read_at(to, t, w.element(i, offsets), dtype, 0);
                            });
  to.set(n.first_result, to.make(t.dtype, sizes, [&](std::span<const Id> i) {
    Id count = divisor ? x.number(*divisor, dtype) : x.cast(w.count(i, with_padding), dtype);
    return x.cast(x.apply(TN_F_DIV, dtype, to.at(sums, i), count), t.dtype);
  }));
  return true;
}

template <size_t n_space>
bool max_pool(Lowering& to, const node& n) {
  return max_over(to, n, sliding(to, n, n_space, int_list(n.args[4])));
}
template <size_t n_space>
bool avg_pool(Lowering& to, const node& n) {
  std::optional<int64_t> divisor;
  if (n.n_args > 6 && n.args[6].kind != TN_ARG_NONE) divisor = int_arg(n.args[6]);
  return mean_over(to, n, sliding(to, n, n_space, {1}), int_arg(n.args[5]) != 0, divisor);
}

Windows adaptive(Lowering& to, const node& n, size_t n_space) {
  return Windows::adaptive(to, to.tensor_arg(n.args[0]).sizes, to.sizes_of(n.first_result),
                           n_space);
}
bool has_results(Lowering& to, const node& n) {
  for (Id size : to.sizes_of(n.first_result))
    if (to.x.range(size).lower < 1) return false;
  return true;
}
template <size_t n_space>
bool adaptive_max_pool(Lowering& to, const node& n) {
  return has_results(to, n) && max_over(to, n, adaptive(to, n, n_space));
}
template <size_t n_space>
bool adaptive_avg_pool(Lowering& to, const node& n) {
  return has_results(to, n) && mean_over(to, n, adaptive(to, n, n_space), false, std::nullopt);
}

constexpr Rule pool_table[] = {
    {"aten.max_pool2d_with_indices.default", max_pool<2>},
    {"aten.max_pool3d_with_indices.default", max_pool<3>},
    {"aten.avg_pool1d.default", avg_pool<1>},
    {"aten.avg_pool2d.default", avg_pool<2>},
    {"aten.avg_pool3d.default", avg_pool<3>},
    {"aten.adaptive_avg_pool1d.default", adaptive_avg_pool<1>},
    {"aten._adaptive_avg_pool2d.default", adaptive_avg_pool<2>},
    {"aten._adaptive_avg_pool3d.default", adaptive_avg_pool<3>},
    {"aten.adaptive_max_pool2d.default", adaptive_max_pool<2>},
    {"aten.adaptive_max_pool3d.default", adaptive_max_pool<3>},
};

}  // namespace

std::span<const Rule> pool_rules() { return pool_table; }

}  // namespace loopir
