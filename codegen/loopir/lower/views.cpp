// Views: other indices into the same value. Nothing is computed.
#include "loopir/lowering.h"

#include <algorithm>

namespace loopir {

using tenon::plugin::node;

namespace {

/// Result r of n reads the operand at the indices that `map` makes of the result's.
using IndexMap = std::function<Ids(std::span<const Id>)>;

void set_view(Lowering& to, const node& n, uint32_t r, const IndexMap& map) {
  Tensor from = to.tensor_arg(n.args[0]);
  auto v = to.info(n.first_result + r);
  to.set(n.first_result + r,
         to.make(v.dtype, to.arguments.indices_of(v.dims()),
                 [&](std::span<const Id> indices) { return to.at(from, map(indices)); }));
  ++to.program.views_removed;
}

// Neighbouring dimensions of both shapes with equal products are groups; in each the position is
// put together and taken apart again, so that a division stays within its group.
struct Reshape {
  Expressions& x;
  const Ids &from, &to;

  Ids operator()(std::span<const Id> indices) const {
    Ids out(from.size(), x.constant(0));
    size_t f = from.size(), t = to.size();
    while (f > 0 || t > 0) {
      size_t f_end = f, t_end = t;
      Id f_size = x.constant(1), t_size = x.constant(1);
      do {
        bool take_from = f > 0 && (t == 0 || x.hint(f_size) <= x.hint(t_size));
        if (take_from && !(f_size == t_size && f_end != f))
          f_size = x.multiply(f_size, from[--f]);
        else if (t > 0)
          t_size = x.multiply(t_size, to[--t]);
        else
          f_size = x.multiply(f_size, from[--f]);
      } while (f_size != t_size && (f > 0 || t > 0));
      regroup(indices, out, {f, f_end}, {t, t_end});
    }
    return out;
  }

  void regroup(std::span<const Id> indices, Ids& out, std::pair<size_t, size_t> f,
               std::pair<size_t, size_t> t) const {
    Id position = x.constant(0);
    for (size_t d = t.first; d < t.second; ++d)
      position = x.add(x.multiply(position, to[d]), indices[d]);
    for (size_t d = f.second; d-- > f.first;) {
      out[d] = d == f.first ? position : x.mod(position, from[d]);
      position = x.floordiv(position, from[d]);
    }
  }
};

// Of memory without gaps a view is memory without gaps. Divisions by sizes that are sums would not
// show that.
bool reshape_memory(Lowering& to, const node& n, const Tensor& from, const Ids& sizes) {
  bool has_symbols =
      std::ranges::any_of(from.sizes, [&](Id size) { return !to.x.number_of(size).has_value(); });
  std::optional<View> view = has_symbols ? to.as_view(from) : std::nullopt;
  if (!view || view->strides != to.contiguous(from.sizes)) return false;
  Ids strides = to.contiguous(sizes);
  to.set(n.first_result, to.make(from.dtype, sizes, [&](std::span<const Id> indices) {
    Id index = view->offset;
    for (size_t d = 0; d < indices.size(); ++d)
      index = to.x.add(index, to.x.multiply(indices[d], strides[d]));
    return to.x.load(view->buffer, index, from.dtype);
  }));
  ++to.program.views_removed;
  return true;
}

bool reshape(Lowering& to, const node& n) {
  const Tensor from = to.tensor_arg(n.args[0]);
  Ids sizes = to.sizes_of(n.first_result);
  if (reshape_memory(to, n, from, sizes)) return true;
  set_view(to, n, 0, Reshape{to.x, from.sizes, sizes});
  return true;
}

bool permute(Lowering& to, const node& n) {
  std::vector<int64_t> order = int_list(n.args[1]);
  set_view(to, n, 0, [&](std::span<const Id> indices) {
    Ids out(order.size());
    for (size_t d = 0; d < order.size(); ++d) out[dimension(order[d], order.size())] = indices[d];
    return out;
  });
  return true;
}

Ids swapped(std::span<const Id> indices, size_t a, size_t b) {
  Ids out(indices.begin(), indices.end());
  std::swap(out[a], out[b]);
  return out;
}

bool transpose(Lowering& to, const node& n) {
  size_t ndim = to.tensor_arg(n.args[0]).ndim();
  if (ndim == 0) return reshape(to, n);
  size_t a = dimension(int_arg(n.args[1]), ndim);
  size_t b = dimension(int_arg(n.args[2]), ndim);
  set_view(to, n, 0, [&](std::span<const Id> indices) { return swapped(indices, a, b); });
  return true;
}

bool matrix_transpose(Lowering& to, const node& n) {
  if (to.tensor_arg(n.args[0]).ndim() < 2) return reshape(to, n);
  set_view(to, n, 0, [&](std::span<const Id> indices) { return swapped(indices, 0, 1); });
  return true;
}

bool expand(Lowering& to, const node& n) {
  const Tensor from = to.tensor_arg(n.args[0]);
  Ids sizes = to.sizes_of(n.first_result);
  set_view(to, n, 0, [&](std::span<const Id> indices) {
    std::span<const Id> last = indices.last(from.ndim());
    Ids out(last.begin(), last.end());
    for (size_t d = 0; d < out.size(); ++d)
      if (to.is_repeated(from.sizes[d], sizes[sizes.size() - out.size() + d]))
        out[d] = to.x.constant(0);
    return out;
  });
  return true;
}

bool slice(Lowering& to, const node& n) {
  const Tensor from = to.tensor_arg(n.args[0]);
  size_t dim = dimension(int_arg(n.args[1]), from.ndim());
  Id start = to.arguments.start_arg(n.args[2], from.sizes[dim]);
  Id step = to.arguments.index_arg(n.args[4]);
  set_view(to, n, 0, [&](std::span<const Id> indices) {
    Ids out(indices.begin(), indices.end());
    out[dim] = to.x.add(start, to.x.multiply(out[dim], step));
    return out;
  });
  return true;
}

bool select(Lowering& to, const node& n) {
  const Tensor from = to.tensor_arg(n.args[0]);
  size_t dim = dimension(int_arg(n.args[1]), from.ndim());
  Id position = to.arguments.position_arg(n.args[2], from.sizes[dim]);
  set_view(to, n, 0, [&](std::span<const Id> indices) {
    Ids out(indices.begin(), indices.end());
    out.insert(out.begin() + static_cast<int64_t>(dim), position);
    return out;
  });
  return true;
}

bool split(Lowering& to, const node& n) {
  const Tensor from = to.tensor_arg(n.args[0]);
  size_t dim = dimension(int_arg(n.args[2]), from.ndim());
  Id start = to.x.constant(0);
  for (uint32_t r = 0; r < n.n_results; ++r) {
    set_view(to, n, r, [&](std::span<const Id> indices) {
      Ids out(indices.begin(), indices.end());
      out[dim] = to.x.add(start, out[dim]);
      return out;
    });
    start = to.x.add(start, to.arguments.index_of(to.info(n.first_result + r).dims()[dim]));
  }
  return true;
}

bool unbind(Lowering& to, const node& n) {
  const Tensor from = to.tensor_arg(n.args[0]);
  size_t dim = dimension(int_arg(n.args[1]), from.ndim());
  for (uint32_t r = 0; r < n.n_results; ++r)
    set_view(to, n, r, [&](std::span<const Id> indices) {
      Ids out(indices.begin(), indices.end());
      out.insert(out.begin() + static_cast<int64_t>(dim), to.x.constant(r));
      return out;
    });
  return true;
}

bool flip(Lowering& to, const node& n) {
  const Tensor from = to.tensor_arg(n.args[0]);
  set_view(to, n, 0, [&](std::span<const Id> indices) {
    Ids out(indices.begin(), indices.end());
    for (int64_t d : int_list(n.args[1])) {
      size_t dim = dimension(d, from.ndim());
      out[dim] = to.x.subtract(to.x.subtract(from.sizes[dim], to.x.constant(1)), out[dim]);
    }
    return out;
  });
  return true;
}

bool diagonal(Lowering& to, const node& n) {
  const Tensor from = to.tensor_arg(n.args[0]);
  int64_t offset = int_arg(n.args[1]);
  size_t a = dimension(int_arg(n.args[2]), from.ndim());
  size_t b = dimension(int_arg(n.args[3]), from.ndim());
  set_view(to, n, 0, [&](std::span<const Id> indices) {
    Ids out(from.ndim());
    size_t next = 0;
    for (size_t d = 0; d < out.size(); ++d)
      if (d != a && d != b) out[d] = indices[next++];
    out[a] = to.x.add(indices.back(), to.x.constant(offset < 0 ? -offset : 0));
    out[b] = to.x.add(indices.back(), to.x.constant(offset > 0 ? offset : 0));
    return out;
  });
  return true;
}

bool unfold(Lowering& to, const node& n) {
  const Tensor from = to.tensor_arg(n.args[0]);
  if (from.ndim() == 0) return false;
  size_t dim = dimension(int_arg(n.args[1]), from.ndim());
  Id step = to.arguments.index_arg(n.args[3]);
  set_view(to, n, 0, [&](std::span<const Id> indices) {
    Ids out(indices.begin(), indices.end() - 1);
    out[dim] = to.x.add(to.x.multiply(out[dim], step), indices.back());
    return out;
  });
  return true;
}

bool same(Lowering& to, const node& n) {
  if (!to.is_tensor(n.args[0])) return false;
  to.set(n.first_result, to.tensor_arg(n.args[0]));
  return true;
}

constexpr Rule view_table[] = {
    {"aten.view.default", reshape},
    {"aten._unsafe_view.default", reshape},
    {"aten.reshape.default", reshape},
    {"aten.unsqueeze.default", reshape},
    {"aten.squeeze.default", reshape},
    {"aten.squeeze.dim", reshape},
    {"aten.squeeze.dims", reshape},
    {"aten.flatten.using_ints", reshape},
    {"aten.permute.default", permute},
    {"aten.transpose.int", transpose},
    {"aten.t.default", matrix_transpose},
    {"aten.expand.default", expand},
    {"aten.slice.Tensor", slice},
    {"aten.select.int", select},
    {"aten.split.Tensor", split},
    {"aten.split_with_sizes.default", split},
    {"aten.unbind.int", unbind},
    {"aten.flip.default", flip},
    {"aten.diagonal.default", diagonal},
    {"aten.unfold.default", unfold},
    {"aten.alias.default", same},
    {"aten.detach.default", same},
    {"aten.lift_fresh_copy.default", same},
};

}  // namespace

std::span<const Rule> view_rules() { return view_table; }

}  // namespace loopir
