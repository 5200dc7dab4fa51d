// Attention as one step: its scores never become a tensor.
#include "loopir/lowering.h"

#include <cmath>

namespace loopir {

using tenon::plugin::node;

namespace {

/// The mask with the result's batch and heads: repeated dimensions have stride 0.
std::optional<View> mask_view(Lowering& to, const Tensor& mask, const Ids& sizes,
                              const std::string& name) {
  View v = to.view_of(mask, name.c_str());
  View out{v.buffer, v.offset, sizes, Ids(4, to.x.constant(0))};
  for (size_t d = 0; d < mask.ndim(); ++d) {
    size_t at = 4 - mask.ndim() + d;
    if (mask.sizes[d] == sizes[at])
      out.strides[at] = v.strides[d];
    else if (!to.x.is(mask.sizes[d], 1))
      return std::nullopt;
  }
  return out;
}

bool is_plain(Lowering& to, const Tensor& t) {
  bool is_taken = t.dtype == TN_F32 || (to.options.any_attention && is_floating(t.dtype));
  return is_taken && t.ndim() == 4 && to.x.range(t.sizes[2]).lower > 0 &&
         to.x.range(t.sizes[3]).lower > 0;
}

// Operands whose rows are dense are read where they are.
View rows_of(Lowering& to, const Tensor& t, const std::string& name) {
  auto view = to.as_view(t);
  if (view && to.x.is(view->strides[3], 1)) return *view;
  Ids strides = to.contiguous(t.sizes);
  Id buffer = to.new_buffer(t.dtype, t.sizes, strides, name.c_str());
  return *to.as_view(to.stored(t, buffer, name.c_str()));
}

/// Keys or values of which each head serves several neighbouring heads of queries.
Tensor with_heads(Lowering& to, const Tensor& t, Id heads) {
  Expressions& x = to.x;
  if (t.ndim() != 4 || t.sizes[1] == heads) return t;
  auto own = x.number_of(t.sizes[1]), all = x.number_of(heads);
  if (!own || !all || *own == 0 || *all % *own) return t;
  Ids sizes = t.sizes;
  sizes[1] = heads;
  return to.make(t.dtype, sizes, [&](std::span<const Id> i) {
    return to.at(t, Ids{i[0], x.floordiv(i[1], x.constant(*all / *own)), i[2], i[3]});
  });
}

bool attention(Lowering& to, const node& n) {
  const Tensor q = to.tensor_arg(n.args[0]);
  Tensor k = to.tensor_arg(n.args[1]), v = to.tensor_arg(n.args[2]);
  Expressions& x = to.x;
  if (n.n_args > 7 && int_arg(n.args[7]) && q.ndim() == 4)
    k = with_heads(to, k, q.sizes[1]), v = with_heads(to, v, q.sizes[1]);
  bool is_known = is_plain(to, q) && is_plain(to, k) && is_plain(to, v) &&
                  number_arg(n.args[4]) == 0 && k.dtype == q.dtype && v.dtype == q.dtype &&
                  k.sizes[0] == q.sizes[0] && k.sizes[1] == q.sizes[1] &&
                  v.sizes[0] == q.sizes[0] && v.sizes[1] == q.sizes[1];
  if (!is_known) return false;
  std::string name = to.name_of(n.first_result);
  Attention a;
  a.name = name;
  a.is_causal = int_arg(n.args[5]) != 0;
  auto channels = x.number_of(q.sizes[3]);
  if (n.args[6].kind == TN_ARG_NONE && !channels) return false;
  a.scale = n.args[6].kind == TN_ARG_NONE ? 1 / std::sqrt(static_cast<double>(*channels))
                                          : number_arg(n.args[6]);
  if (to.is_tensor(n.args[3])) {
    const Tensor mask = to.tensor_arg(n.args[3]);
    bool is_taken = mask.dtype == q.dtype || mask.dtype == TN_BOOL;
    if (!is_taken || mask.ndim() > 4) return false;
    a.mask = mask_view(to, mask, {q.sizes[0], q.sizes[1], q.sizes[2], k.sizes[2]}, name);
    if (!a.mask) return false;
    a.mask_dtype = mask.dtype;
  }
  a.query = rows_of(to, q, name);
  a.key = rows_of(to, k, name);
  a.value = rows_of(to, v, name);
  // [batch, positions, heads, channels] in memory: what the layers behind it put together again.
  Ids sizes{q.sizes[0], q.sizes[1], q.sizes[2], v.sizes[3]}, strides(4);
  strides[3] = x.constant(1);
  strides[1] = sizes[3];
  strides[2] = x.multiply(sizes[1], sizes[3]);
  strides[0] = x.multiply(sizes[2], strides[2]);
  Id buffer = to.new_buffer(q.dtype, sizes, strides, name.c_str());
  a.result = to.whole(buffer);
  to.program.steps.push_back(std::move(a));
  to.set(n.first_result, to.over(buffer));
  return true;
}

constexpr Rule rules[] = {
    {"aten.scaled_dot_product_attention.default", attention},
};

}  // namespace

std::span<const Rule> attention_rules() { return rules; }

}  // namespace loopir
