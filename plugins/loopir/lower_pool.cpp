// Pooling over windows that are known when compiling: one expression over all positions of the
// window, which loops vectorise over channels or columns.
#include "lowering.h"

#include <limits>

namespace loopir {

using tenon::plugin::node;
using tenon::plugin::sv;

namespace {

/// Sizes in the last two dimensions.
struct Window {
  int64_t kernel[2], stride[2], padding[2], dilation[2] = {1, 1};
  static constexpr int64_t largest = 36;  // positions that are worth one expression

  Window(Lowering& to, const node& n) {
    fill(kernel, to.int_list(n.args[1]));
    std::vector<int64_t> given = to.int_list(n.args[2]);
    fill(stride, given.empty() ? to.int_list(n.args[1]) : given);
    fill(padding, to.int_list(n.args[3]));
  }
  static void fill(int64_t (&out)[2], const std::vector<int64_t>& given) {
    out[0] = given.at(0);
    out[1] = given.size() > 1 ? given[1] : given[0];
  }
  int64_t positions() const { return kernel[0] * kernel[1]; }
};

struct Tap {
  Id value, mask;  // mask: none where it is inside for all results
  Id position;     // row * width + column
};

/// The source at window position (r, c) of a result.
Tap tap_at(Lowering& to, const Tensor& t, const Window& w, std::span<const Id> i, int64_t r,
           int64_t c) {
  Expressions& x = to.x;
  Ids inner(i.begin(), i.end());
  Tap tap{none, none, none};
  int64_t offsets[] = {r, c};
  for (int k = 0; k < 2; ++k) {
    size_t d = t.ndim() - 2 + size_t(k);
    int64_t shift = offsets[k] * w.dilation[k] - w.padding[k];
    inner[d] = x.add(x.multiply(i[d], x.constant(w.stride[k])), x.constant(shift));
    auto both = [&](uint16_t code, Id bound) {
      Id ok = x.apply(code, TN_BOOL, x.index_value(inner[d]), bound);
      tap.mask = tap.mask == none ? ok : x.apply(TN_F_BAND, TN_BOOL, tap.mask, ok);
    };
    if (x.range(inner[d]).lower < 0) both(TN_F_GE, x.number(int64_t{0}, TN_I64));
    if (!x.is_less(inner[d], t.sizes[d])) both(TN_F_LT, x.index_value(t.sizes[d]));
  }
  tap.value = to.at(t, inner);
  if (tap.mask != none) tap.value = x.masked(tap.value, tap.mask);
  tap.position = x.add(x.multiply(inner[t.ndim() - 2], t.sizes.back()), inner.back());
  return tap;
}

// The first of equal ones wins, NaN beats all: as ATen, whose loop takes x > best or NaN.
bool max_pool(Lowering& to, const node& n) {
  Tensor t = to.tensor_arg(n.args[0]);
  Window w(to, n);
  Window::fill(w.dilation, to.int_list(n.args[4]));
  if (!is_floating(t.dtype) || t.ndim() < 3 || w.positions() > Window::largest) return false;
  std::string name(sv(to.info(n.first_result).name));
  t = to.cheap(t, name.c_str());
  Expressions& x = to.x;
  int32_t dtype = compute_type(t.dtype);
  auto sizes = to.indices_of(to.info(n.first_result).dims());
  auto best = [&](std::span<const Id> i, bool wants_position) {
    Id value = x.number(-std::numeric_limits<double>::infinity(), dtype), position = none;
    for (int64_t r = 0; r < w.kernel[0]; ++r)
      for (int64_t c = 0; c < w.kernel[1]; ++c) {
        Tap tap = tap_at(to, t, w, i, r, c);
        Id e = x.cast(tap.value, dtype);
        if (!wants_position) {
          if (tap.mask != none) e = x.apply(TN_F_SELECT, dtype, tap.mask, e, value);
          value = x.apply(TN_F_MAX, dtype, value, e);
          continue;
        }
        Id better = x.apply(TN_F_BOR, TN_BOOL, x.apply(TN_F_GT, TN_BOOL, e, value),
                            x.apply(TN_F_NE, TN_BOOL, e, e));
        if (tap.mask != none) better = x.apply(TN_F_BAND, TN_BOOL, better, tap.mask);
        Id here = x.index_value(tap.position);
        position = position == none ? here : x.apply(TN_F_SELECT, TN_I64, better, here, position);
        value = x.apply(TN_F_SELECT, dtype, better, e, value);
      }
    return wants_position ? position : value;
  };
  to.set(n.first_result, to.make(t.dtype, sizes, [&](std::span<const Id> i) {
    return x.cast(best(i, false), t.dtype);
  }));
  uint32_t indices = n.first_result + 1;
  if (to.reads[indices] || to.is_output[indices])
    to.set(indices, to.make(TN_I64, sizes, [&](std::span<const Id> i) { return best(i, true); }));
  return true;
}

bool avg_pool(Lowering& to, const node& n) {
  Tensor t = to.tensor_arg(n.args[0]);
  Window w(to, n);
  bool ceil_mode = to.int_arg(n.args[4]) != 0, counts_padding = to.int_arg(n.args[5]) != 0;
  bool has_divisor = n.args[6].kind != TN_ARG_NONE;
  bool is_padded = w.padding[0] || w.padding[1];
  if (!is_floating(t.dtype) || t.ndim() < 3 || w.positions() > Window::largest || ceil_mode ||
      (is_padded && !counts_padding && !has_divisor))
    return false;
  std::string name(sv(to.info(n.first_result).name));
  t = to.cheap(t, name.c_str());
  Expressions& x = to.x;
  int32_t dtype = compute_type(t.dtype);
  double divisor = has_divisor ? double(to.int_arg(n.args[6])) : double(w.positions());
  auto sizes = to.indices_of(to.info(n.first_result).dims());
  to.set(n.first_result, to.make(t.dtype, sizes, [&](std::span<const Id> i) {
    Id sum = none;
    for (int64_t r = 0; r < w.kernel[0]; ++r)
      for (int64_t c = 0; c < w.kernel[1]; ++c) {
        Tap tap = tap_at(to, t, w, i, r, c);
        Id e = x.cast(tap.value, dtype);
        if (tap.mask != none) e = x.apply(TN_F_SELECT, dtype, tap.mask, e, x.number(0.0, dtype));
        sum = sum == none ? e : x.apply(TN_F_ADD, dtype, sum, e);
      }
    return x.cast(x.apply(TN_F_DIV, dtype, sum, x.number(divisor, dtype)), t.dtype);
  }));
  return true;
}

constexpr Rule rules[] = {
    {"aten.max_pool2d_with_indices.default", max_pool},
    {"aten.avg_pool2d.default", avg_pool},
};

}  // namespace

std::span<const Rule> pool_rules() { return rules; }

}  // namespace loopir
