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

/// The arguments of an op, by what they are.
struct Arguments {
  const tn_arg &query, &key, &value, &mask, &is_causal, &scale;
  bool is_grouped = false;
};

/// The number that scores are multiplied by, also where a call tells it.
bool add_scale(Lowering& to, const tn_arg& given, Id channels, int32_t dtype, Attention& a) {
  Expressions& x = to.x;
  int32_t computed = compute_type(dtype);
  bool is_told = given.kind != TN_ARG_NONE;
  auto known = x.number_of(channels);
  if (is_told && !to.arguments.place_of_real(given)) {
    a.scale = number_arg(given);
  } else if (!is_told && known) {
    a.scale = 1 / std::sqrt(static_cast<double>(*known));
  } else if (to.options.any_attention) {
    Id one = x.number(1.0, computed);
    a.factor =
        is_told ? to.arguments.number(given, computed)
                : x.apply(TN_F_DIV, computed, one,
                          x.apply(TN_F_SQRT, computed, x.cast(x.index_value(channels), computed)));
  } else {
    return false;
  }
  return true;
}

/// All but the results. Nothing where the op is not one of the plain kind.
std::optional<Attention> described(Lowering& to, const Arguments& given, const std::string& name) {
  const Tensor q = to.tensor_arg(given.query);
  Tensor k = to.tensor_arg(given.key), v = to.tensor_arg(given.value);
  if (given.is_grouped && q.ndim() == 4)
    k = with_heads(to, k, q.sizes[1]), v = with_heads(to, v, q.sizes[1]);
  bool is_known = is_plain(to, q) && is_plain(to, k) && is_plain(to, v) && k.dtype == q.dtype &&
                  v.dtype == q.dtype && k.sizes[0] == q.sizes[0] && k.sizes[1] == q.sizes[1] &&
                  v.sizes[0] == q.sizes[0] && v.sizes[1] == q.sizes[1];
  if (!is_known) return std::nullopt;
  Attention a;
  a.name = name;
  a.is_causal = int_arg(given.is_causal) != 0;
  if (!add_scale(to, given.scale, q.sizes[3], q.dtype, a)) return std::nullopt;
  if (to.is_tensor(given.mask)) {
    const Tensor mask = to.tensor_arg(given.mask);
    bool is_taken = mask.dtype == q.dtype || mask.dtype == TN_BOOL;
    if (!is_taken || mask.ndim() > 4) return std::nullopt;
    a.mask = mask_view(to, mask, {q.sizes[0], q.sizes[1], q.sizes[2], k.sizes[2]}, name);
    if (!a.mask) return std::nullopt;
    a.mask_dtype = mask.dtype;
  }
  a.query = rows_of(to, q, name);
  a.key = rows_of(to, k, name);
  a.value = rows_of(to, v, name);
  return a;
}

/// [batch, positions, heads, channels] in memory: what the layers behind it put together again.
View heads_inside(Lowering& to, int32_t dtype, const Ids& sizes, const std::string& name) {
  Ids strides(4);
  strides[3] = to.x.constant(1);
  strides[1] = sizes[3];
  strides[2] = to.x.multiply(sizes[1], sizes[3]);
  strides[0] = to.x.multiply(sizes[2], strides[2]);
  return to.whole(to.new_buffer(dtype, sizes, strides, name.c_str()));
}

View result_of(Lowering& to, const Attention& a) {
  const Ids &q = a.query.sizes, &v = a.value.sizes;
  return heads_inside(to, to.program.buffers[a.query.buffer].dtype, {q[0], q[1], q[2], v[3]},
                      a.name);
}

bool attention(Lowering& to, const node& n) {
  bool is_grouped = n.n_args > 7 && int_arg(n.args[7]);
  if (number_arg(n.args[4]) != 0) return false;
  auto a =
      described(to, {n.args[0], n.args[1], n.args[2], n.args[3], n.args[5], n.args[6], is_grouped},
                to.name_of(n.first_result));
  if (!a) return false;
  a->result = result_of(to, *a);
  to.set(n.first_result, to.over(a->result.buffer));
  to.program.steps.push_back(*std::move(a));
  return true;
}

// ---- for training, without dropout: their ops take none

/// Rows of log-sums as rows of one element.
View rows_of_one(Lowering& to, View sums) {
  sums.sizes.push_back(to.x.constant(1));
  sums.strides.push_back(to.x.constant(1));
  return sums;
}

bool attention_with_sums(Lowering& to, const node& n) {
  if (!to.options.any_attention) return false;
  std::string name = to.name_of(n.first_result);
  auto a = described(to, {n.args[0], n.args[1], n.args[2], n.args[5], n.args[4], n.args[6]}, name);
  if (!a) return false;
  a->result = result_of(to, *a);
  int32_t dtype = to.program.buffers[a->query.buffer].dtype;
  Ids rows(a->query.sizes.begin(), a->query.sizes.end() - 1);
  Id sums =
      to.new_buffer(dtype == TN_F64 ? TN_F64 : TN_F32, rows, to.contiguous(rows), name.c_str());
  a->log_sums = rows_of_one(to, to.whole(sums));
  to.set(n.first_result, to.over(a->result.buffer));
  to.set(n.first_result + 1, to.over(sums));
  to.program.steps.push_back(*std::move(a));
  return true;
}

bool attention_gradients(Lowering& to, const node& n) {
  if (!to.options.any_attention) return false;
  std::string name = to.name_of(n.first_result);
  auto a = described(to, {n.args[1], n.args[2], n.args[3], n.args[8], n.args[7], n.args[9]}, name);
  const Tensor gradient = to.tensor_arg(n.args[0]), made = to.tensor_arg(n.args[4]);
  if (!a || gradient.ndim() != 4 || gradient.dtype != made.dtype) return false;
  a->result = rows_of(to, made, name);
  a->log_sums = rows_of_one(to, to.view_of(to.tensor_arg(n.args[5]), name.c_str()));
  AttentionGradient g;
  g.name = name;
  g.gradient = rows_of(to, gradient, name);
  View* results[] = {&g.of_query, &g.of_key, &g.of_value};
  const View* like[] = {&a->query, &a->key, &a->value};
  for (uint32_t r = 0; r < 3; ++r) {
    *results[r] = heads_inside(to, gradient.dtype, like[r]->sizes, name);
    to.set(n.first_result + r, to.over(results[r]->buffer));
  }
  g.of = *std::move(a);
  to.program.steps.push_back(std::move(g));
  return true;
}

constexpr Rule attention_table[] = {
    {"aten.scaled_dot_product_attention.default", attention},
    {"aten._scaled_dot_product_flash_attention_for_cpu.default", attention_with_sums},
    {"aten._scaled_dot_product_flash_attention_for_cpu_backward.default", attention_gradients},
};

}  // namespace

std::span<const Rule> attention_rules() { return attention_table; }

}  // namespace loopir
