// Gradients of pooling. Windows are known, so an element adds up what the results whose windows
// have it give: nothing is written twice. Only positions that follow no windows are scattered to.
#include "loopir/lower/scatter.h"
#include "loopir/lower/windows.h"

namespace loopir {

using tenon::plugin::node;

namespace {

/// Kernel, stride and padding are arguments 2 to 4.
Windows windows_of(Lowering& to, const node& n, size_t n_space,
                   const std::vector<int64_t>& dilation) {
  return Windows::sliding(to, to.sizes_of(n.first_result), to.tensor_arg(n.args[0]).sizes,
                          int_list(n.args[2], n_space), int_list(n.args[3]), int_list(n.args[4]),
                          dilation);
}

using Share = std::function<Id(Id g, const Windows::Place& user, std::span<const Id> element)>;

/// The stride of every axis, if windows slide by more than one element somewhere.
std::optional<std::vector<int64_t>> phases_of(const Windows& w) {
  constexpr int64_t most = 27;
  std::vector<int64_t> out;
  int64_t count = 1;
  for (const WindowAxis& axis : w.axes) {
    if (axis.is_adaptive || axis.dilation > 1 || axis.stride > most) return std::nullopt;
    out.push_back(axis.stride);
    count *= axis.stride;
  }
  if (count == 1 || count > most) return std::nullopt;
  return out;
}

/// Channels first or last, as the gradient lies.
Ids strides_like(Lowering& to, const Tensor& gradient, const Ids& sizes) {
  auto view = to.as_view(gradient);
  bool is_last =
      view && sizes.size() == 4 && to.x.is(view->strides[1], 1) && !to.x.is(view->strides[3], 1);
  return is_last ? to.channels_last(sizes) : to.contiguous(sizes);
}

/// The elements of one phase, those from `phase` on at distances of `strides`, into a buffer.
Loop loop_over_phase(Lowering& to, const Windows& w, Id buffer, const Ids& phase,
                     const Ids& strides, Ids& element) {
  Expressions& x = to.x;
  const Buffer b = to.program.buffers[buffer];
  Loop loop;
  loop.name = b.name;
  loop.buffer = buffer;
  loop.index = x.constant(0);
  for (size_t d = 0; d < b.sizes.size(); ++d) {
    Id stride = d < w.first ? x.constant(1) : strides[d - w.first];
    Id first = d < w.first ? x.constant(0) : phase[d - w.first];
    Id left = x.add(x.subtract(b.sizes[d], first), x.subtract(stride, x.constant(1)));
    Id v = x.variable(x.floordiv(left, stride));
    if (x.index_at(v).kind == IndexKind::variable) loop.outer.push_back(v);
    element.push_back(x.add(x.multiply(v, stride), first));
    loop.index = x.add(loop.index, x.multiply(element[d], b.strides[d]));
  }
  return loop;
}

// Elements that lie a stride apart have users that lie one apart: each such phase reads lines,
// where all elements together would read every user at a place of its own.
Tensor sums_by_phase(Lowering& to, const node& n, const Windows& w, const Tensor& gradient,
                     const std::vector<int64_t>& strides, const Share& share) {
  Expressions& x = to.x;
  int32_t dtype = compute_type(gradient.dtype);
  Ids sizes = to.sizes_of(n.first_result), steps;
  Id buffer = to.new_buffer(dtype, sizes, strides_like(to, gradient, sizes),
                            to.name_of(n.first_result).c_str());
  for (int64_t s : strides) steps.push_back(x.constant(s));
  for (const Ids& phase : tuples(x, steps)) {
    Ids element;
    Loop loop = loop_over_phase(to, w, buffer, phase, steps, element);
    for (const Ids& numbers : tuples(x, w.users())) {
      Windows::Place user = w.user(element, numbers);
      Id part = share(read_at(to, gradient, user, dtype, 0), user, element);
      loop.value = loop.value == none ? part : x.apply(TN_F_ADD, dtype, loop.value, part);
    }
    to.program.steps.push_back(std::move(loop));
  }
  return to.over(buffer);
}

/// The sum over users of share(gradient, the user).
void gather_gradient(Lowering& to, const node& n, const Windows& w, const Tensor& gradient,
                     const Share& share) {
  Ids sizes = to.sizes_of(n.first_result);
  int32_t dtype = compute_type(gradient.dtype), result = to.info(n.first_result).dtype;
  auto phases = phases_of(w);
  Tensor sums =
      phases && is_few(to.x, w.users())
          ? sums_by_phase(to, n, w, gradient, *phases, share)
          : folded_over(to, Fold::sum, dtype, sizes, w.users(), to.name_of(n.first_result),
                        [&](std::span<const Id> i, std::span<const Id> numbers) {
                          Windows::Place user = w.user(i, numbers);
                          return share(read_at(to, gradient, user, dtype, 0), user, i);
                        });
  to.set(n.first_result, to.make(result, sizes, [&](std::span<const Id> i) {
    return to.x.cast(to.at(sums, i), result);
  }));
}

// A result outside of the tensor has 0 as its gradient, whatever that is divided by.
bool mean_backward(Lowering& to, const node& n, const Windows& w, bool with_padding,
                   std::optional<int64_t> divisor) {
  Tensor gradient = to.tensor_arg(n.args[0]);
  if (!is_floating(gradient.dtype)) return false;
  gradient = to.cheap(gradient, to.name_of(n.first_result).c_str());
  Expressions& x = to.x;
  int32_t dtype = compute_type(gradient.dtype);
  gather_gradient(to, n, w, gradient, [&](Id g, const Windows::Place& user, std::span<const Id>) {
    Id count =
        divisor ? x.number(*divisor, dtype) : x.cast(w.count(user.element, with_padding), dtype);
    Id part = x.apply(TN_F_DIV, dtype, g, count);
    if (divisor || user.condition == none) return part;
    return x.apply(TN_F_SELECT, dtype, user.condition, part, x.number(0.0, dtype));
  });
  return true;
}

template <size_t n_space>
bool avg_backward(Lowering& to, const node& n) {
  std::optional<int64_t> divisor;
  if (n.args[7].kind != TN_ARG_NONE) divisor = int_arg(n.args[7]);
  return mean_backward(to, n, windows_of(to, n, n_space, {1}), int_arg(n.args[6]) != 0, divisor);
}
template <size_t n_space>
bool adaptive_avg_backward(Lowering& to, const node& n) {
  const Tensor& gradient = to.tensor_arg(n.args[0]);
  Windows w = Windows::adaptive(to, to.sizes_of(n.first_result), gradient.sizes, n_space);
  return mean_backward(to, n, w, false, std::nullopt);
}

// An element gets what those results have that name its position.
template <size_t n_space>
bool max_backward(Lowering& to, const node& n) {
  Tensor gradient = to.tensor_arg(n.args[0]), indices = to.tensor_arg(n.args[7]);
  if (!is_floating(gradient.dtype) || indices.dtype != TN_I64) return false;
  std::string name = to.name_of(n.first_result);
  gradient = to.cheap(gradient, name.c_str());
  indices = to.cheap(indices, name.c_str());
  Expressions& x = to.x;
  int32_t dtype = compute_type(gradient.dtype);
  Windows w = windows_of(to, n, n_space, int_list(n.args[5]));
  gather_gradient(to, n, w, gradient,
                  [&](Id g, const Windows::Place& user, std::span<const Id> element) {
                    Id chosen = to.at(indices, user.element);
                    if (user.condition != none) chosen = x.masked(chosen, user.condition);
                    Id own = x.index_value(w.position(Ids(element.begin(), element.end())));
                    Id is_own = x.apply(TN_F_EQ, TN_BOOL, chosen, own);
                    return x.apply(TN_F_SELECT, dtype, is_own, g, x.number(0.0, dtype));
                  });
  return true;
}

// ---- positions within a plane that may be any

/// Writes operand 0 to the positions that `indices` gives, plane by plane.
bool scatter_to_positions(Lowering& to, const node& n, const tn_arg& indices_arg, size_t n_space,
                          Store store) {
  const Tensor from = to.tensor_arg(n.args[0]), indices = index_tensor(to, indices_arg);
  if (!is_computing(from.dtype) || indices.dtype != TN_I64 || from.ndim() <= n_space) return false;
  Target target(to, n.first_result, store);
  size_t first = from.ndim() - n_space;
  Id plane = to.x.product_of(std::span<const Id>(target.sizes).subspan(first));
  if (!target.has_places(Ids{plane})) return false;
  target.fill_with_zeros();
  Ids points = variables_for(to, from.sizes);
  Ids outer(points.begin(), points.begin() + static_cast<int64_t>(first));
  Ids reduced(points.begin() + static_cast<int64_t>(first), points.end()), element = outer;
  element.resize(points.size(), to.x.constant(0));
  element.back() = strictly_checked(to, to.at(indices, points), plane);
  target.write(store, outer, reduced, to.at(from, points), element);
  target.give();
  return true;
}

template <size_t n_space>
bool adaptive_max_backward(Lowering& to, const node& n) {
  return scatter_to_positions(to, n, n.args[2], n_space, Store::add);
}
template <size_t n_space>
bool fractional_backward(Lowering& to, const node& n) {
  return scatter_to_positions(to, n, n.args[4], n_space, Store::add);
}
template <size_t n_space>
bool max_unpool(Lowering& to, const node& n) {
  return scatter_to_positions(to, n, n.args[1], n_space, Store::set);
}

constexpr Rule pool_backward_table[] = {
    {"aten.avg_pool2d_backward.default", avg_backward<2>},
    {"aten.avg_pool3d_backward.default", avg_backward<3>},
    {"aten.max_pool2d_with_indices_backward.default", max_backward<2>},
    {"aten.max_pool3d_with_indices_backward.default", max_backward<3>},
    {"aten._adaptive_avg_pool2d_backward.default", adaptive_avg_backward<2>},
    {"aten._adaptive_avg_pool3d_backward.default", adaptive_avg_backward<3>},
    {"aten.adaptive_max_pool2d_backward.default", adaptive_max_backward<2>},
    {"aten.adaptive_max_pool3d_backward.default", adaptive_max_backward<3>},
    {"aten.fractional_max_pool2d_backward.default", fractional_backward<2>},
    {"aten.fractional_max_pool3d_backward.default", fractional_backward<3>},
    {"aten.max_unpool2d.default", max_unpool<2>},
    {"aten.max_unpool3d.default", max_unpool<3>},
};

}  // namespace

std::span<const Rule> pool_backward_rules() { return pool_backward_table; }

}  // namespace loopir
