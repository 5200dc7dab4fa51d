// Windows of pooling. Adaptive ones begin at floor(o * in / out) and end at ceil((o + 1) * in /
// out).
#include "loopir/lower/windows.h"

#include <algorithm>

namespace loopir {

namespace {

Id both(Expressions& x, Id a, Id b) {
  if (a == none || b == none) return a == none ? b : a;
  return x.apply(TN_F_BAND, TN_BOOL, a, b);
}
Id compare(Expressions& x, uint16_t code, Id a, Id b) {
  return x.apply(code, TN_BOOL, x.index_value(a), x.index_value(b));
}
/// low <= i < high, as far as that is not known; none where it is.
Id within(Expressions& x, Id i, Id size) {
  Id low = x.range(i).lower < 0 ? compare(x, TN_F_GE, i, x.constant(0)) : none;
  return both(x, low, x.is_less(i, size) ? none : compare(x, TN_F_LT, i, size));
}
Id rounded_up(Expressions& x, Id a, Id b) {
  return x.floordiv(x.add(a, x.subtract(b, x.constant(1))), b);
}

}  // namespace

bool WindowAxis::is_even() const {
  return x.is(out, 1) || x.multiply(x.floordiv(in, out), out) == in;
}

Id WindowAxis::start(Id result) const {
  if (!is_adaptive) return x.subtract(x.multiply(result, x.constant(stride)), x.constant(padding));
  if (is_even()) return x.multiply(result, x.floordiv(in, out));
  return x.floordiv(x.multiply(result, in), out);
}
Id WindowAxis::end(Id result) const {
  if (!is_adaptive) return x.add(start(result), x.constant((kernel - 1) * dilation + 1));
  if (is_even()) return x.add(start(result), x.floordiv(in, out));
  return rounded_up(x, x.multiply(x.add(result, x.constant(1)), in), out);
}

Id WindowAxis::offsets() const {
  if (!is_adaptive) return x.constant(kernel);
  if (is_even()) return x.floordiv(in, out);
  return x.add(rounded_up(x, in, out), x.constant(1));
}
Id WindowAxis::element(Id result, Id offset) const {
  return x.add(start(result), x.multiply(offset, x.constant(dilation)));
}
Id WindowAxis::has(Id result, Id offset) const {
  Id at = element(result, offset);
  Id inside = within(x, at, in);
  if (!is_adaptive || is_even()) return inside;
  return both(x, inside, compare(x, TN_F_LT, at, end(result)));
}
Id WindowAxis::count(Id result, bool with_padding) const {
  Id first = start(result), last = end(result);
  if (is_adaptive) return x.subtract(last, first);
  if (with_padding) return x.subtract(x.minimum(last, x.add(in, x.constant(padding))), first);
  return x.subtract(x.minimum(last, in), x.maximum(first, x.constant(0)));
}

Id WindowAxis::users() const {
  if (is_adaptive) return is_even() ? x.constant(1) : x.add(rounded_up(x, out, in), x.constant(1));
  return x.constant(dilation > 1 ? kernel : (kernel + stride - 1) / stride);
}
Id WindowAxis::user(Id element, Id number) const {
  if (is_adaptive) {
    if (is_even()) return x.floordiv(element, x.floordiv(in, out));
    return x.add(x.floordiv(x.multiply(element, out), in), number);
  }
  Id at = x.add(element, x.constant(padding));
  if (dilation > 1)
    return x.floordiv(x.subtract(at, x.multiply(number, x.constant(dilation))), x.constant(stride));
  return x.subtract(x.floordiv(at, x.constant(stride)), number);
}
Id WindowAxis::uses(Id element, Id number) const {
  Id o = user(element, number), inside = within(x, o, out);
  if (is_adaptive) {
    if (is_even()) return none;
    inside = both(x, inside, compare(x, TN_F_LE, start(o), element));
    return both(x, inside, compare(x, TN_F_LT, element, end(o)));
  }
  if (dilation > 1) {
    Id at =
        x.subtract(x.add(element, x.constant(padding)), x.multiply(number, x.constant(dilation)));
    return both(x, inside, compare(x, TN_F_EQ, x.multiply(o, x.constant(stride)), at));
  }
  return kernel % stride == 0 ? inside : both(x, inside, compare(x, TN_F_LT, element, end(o)));
}

// ---- of several dimensions

Windows Windows::sliding(Lowering& to, const Ids& in, const Ids& out,
                         const std::vector<int64_t>& kernel, const std::vector<int64_t>& stride,
                         const std::vector<int64_t>& padding,
                         const std::vector<int64_t>& dilation) {
  Windows w;
  w.first = in.size() - kernel.size();
  auto of = [](const std::vector<int64_t>& given, size_t d) {
    return given[given.size() > 1 ? d : 0];
  };
  for (size_t d = 0; d < kernel.size(); ++d)
    w.axes.push_back({to.x, in[w.first + d], out[w.first + d], false, kernel[d],
                      of(stride.empty() ? kernel : stride, d), of(padding, d), of(dilation, d)});
  return w;
}
Windows Windows::adaptive(Lowering& to, const Ids& in, const Ids& out, size_t n) {
  Windows w;
  w.first = in.size() - n;
  for (size_t d = w.first; d < in.size(); ++d) w.axes.push_back({to.x, in[d], out[d], true});
  return w;
}

Ids Windows::offsets() const {
  Ids out;
  for (const WindowAxis& axis : axes) out.push_back(axis.offsets());
  return out;
}
Ids Windows::users() const {
  Ids out;
  for (const WindowAxis& axis : axes) out.push_back(axis.users());
  return out;
}
Windows::Place Windows::element(std::span<const Id> i, std::span<const Id> offsets) const {
  Place out{Ids(i.begin(), i.end()), none};
  for (size_t d = 0; d < axes.size(); ++d) {
    out.element[first + d] = axes[d].element(i[first + d], offsets[d]);
    out.condition = both(axes[d].x, out.condition, axes[d].has(i[first + d], offsets[d]));
  }
  return out;
}
Windows::Place Windows::user(std::span<const Id> i, std::span<const Id> numbers) const {
  Place out{Ids(i.begin(), i.end()), none};
  for (size_t d = 0; d < axes.size(); ++d) {
    out.element[first + d] = axes[d].user(i[first + d], numbers[d]);
    out.condition = both(axes[d].x, out.condition, axes[d].uses(i[first + d], numbers[d]));
  }
  return out;
}
Id Windows::count(std::span<const Id> i, bool with_padding) const {
  Expressions& x = axes[0].x;
  Id out = x.constant(1);
  for (size_t d = 0; d < axes.size(); ++d)
    out = x.multiply(out, axes[d].count(i[first + d], with_padding));
  // Windows over a tensor without elements have none to count, and their sums are 0.
  bool may_be_empty =
      std::ranges::any_of(axes, [&](const WindowAxis& axis) { return x.range(axis.in).lower < 1; });
  return x.index_value(may_be_empty ? x.maximum(out, x.constant(1)) : out);
}
Id Windows::position(const Ids& element) const {
  Expressions& x = axes[0].x;
  Id out = x.constant(0);
  for (size_t d = 0; d < axes.size(); ++d)
    out = x.add(x.multiply(out, axes[d].in), element[first + d]);
  return out;
}

Id read_at(Lowering& to, const Tensor& t, const Windows::Place& place, int32_t dtype,
           double other) {
  Expressions& x = to.x;
  Id value = to.at(t, place.element);
  if (place.condition == none) return x.cast(value, dtype);
  value = x.cast(x.masked(value, place.condition), dtype);
  return x.apply(TN_F_SELECT, dtype, place.condition, value, x.number(other, dtype));
}

// ---- folds

bool is_few(Expressions& x, const Ids& ranges) {
  constexpr int64_t few = 36;
  auto n = x.number_of(x.product_of(ranges));
  return n && *n <= few;
}

std::vector<Ids> tuples(Expressions& x, const Ids& ranges) {
  std::vector<Ids> out{{}};
  for (Id range : ranges) {
    std::vector<Ids> longer;
    for (const Ids& t : out)
      for (int64_t i = 0; i < x.number_of(range).value_or(0); ++i) {
        longer.push_back(t);
        longer.back().push_back(x.constant(i));
      }
    out = std::move(longer);
  }
  return out;
}

Tensor folded_over(Lowering& to, Fold fold, int32_t dtype, const Ids& sizes, const Ids& ranges,
                   const std::string& name,
                   const std::function<Id(std::span<const Id>, std::span<const Id>)>& value) {
  Expressions& x = to.x;
  if (!is_few(x, ranges)) return to.folded(fold, dtype, sizes, ranges, name.c_str(), value);
  uint16_t code = fold == Fold::sum ? TN_F_ADD : TN_F_MAX;
  return to.make(dtype, sizes, [&](std::span<const Id> i) {
    Id out = none;
    for (const Ids& t : tuples(x, ranges)) {
      Id e = value(i, t);
      out = out == none ? e : x.apply(code, dtype, out, e);
    }
    return out;
  });
}

}  // namespace loopir
