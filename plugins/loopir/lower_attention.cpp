// Attention as one step: its scores never become a tensor.
#include "kernel.h"
#include "lowering.h"

#include <cmath>
#include <limits>

namespace loopir {

using tenon::plugin::node;
using tenon::plugin::sv;

namespace {

constexpr uint16_t extra_symbol_hint = 128;

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
  return t.dtype == TN_F32 && t.ndim() == 4 && to.x.range(t.sizes[2]).lower > 0 &&
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

bool attention(Lowering& to, const node& n) {
  const Tensor q = to.tensor_arg(n.args[0]), k = to.tensor_arg(n.args[1]);
  const Tensor v = to.tensor_arg(n.args[2]);
  Expressions& x = to.x;
  bool is_known = is_plain(to, q) && is_plain(to, k) && is_plain(to, v) &&
                  to.number_arg(n.args[4]) == 0 && k.sizes[0] == q.sizes[0] &&
                  k.sizes[1] == q.sizes[1] && v.sizes[0] == q.sizes[0] && v.sizes[1] == q.sizes[1];
  if (!is_known) return false;
  std::string name(sv(to.info(n.first_result).name));
  Attention a;
  a.name = name;
  a.is_causal = to.int_arg(n.args[5]) != 0;
  auto channels = x.number_of(q.sizes[3]);
  if (n.args[6].kind == TN_ARG_NONE && !channels) return false;
  a.scale =
      n.args[6].kind == TN_ARG_NONE ? 1 / std::sqrt(double(*channels)) : to.number_arg(n.args[6]);
  if (to.is_tensor(n.args[3])) {
    const Tensor mask = to.tensor_arg(n.args[3]);
    if ((mask.dtype != TN_F32 && mask.dtype != TN_BOOL) || mask.ndim() > 4) return false;
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
  Id buffer = to.new_buffer(TN_F32, sizes, strides, name.c_str());
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

Id keys_of_tile(Program& program) {
  Expressions& x = program.expressions;
  if (x.symbols.size() == program.n_symbols)
    x.symbols.push_back({extra_symbol_hint, 1, std::numeric_limits<int64_t>::max(), "keys"});
  return x.symbol(program.n_symbols);
}

namespace {

/// The loops of a softmax over scores[row, key], in place.
struct SoftmaxLoops {
  Program& program;
  Expressions& x;
  const Attention& a;
  Id row, key, index;
  Id lowest;

  SoftmaxLoops(Program& program, const Attention& a)
      : program(program), x(program.expressions), a(a) {
    Id keys = keys_of_tile(program);
    row = x.variable(a.query.sizes[2]);
    key = x.variable(keys);
    index = x.add(x.multiply(row, keys), key);
    lowest = x.number(-std::numeric_limits<double>::infinity(), TN_F32);
  }

  Id add_buffer(const char* name) {
    return program.add_buffer({Buffer::Place::temporary, 0, TN_F32, {}, {}, name});
  }

  /// The score with its mask; -inf where the key must not be seen.
  Id masked(Id score) {
    if (a.mask) {  // the address is that of the head's mask
      Id at = x.add(x.multiply(row, a.mask->strides[2]), x.multiply(key, a.mask->strides[3]));
      Id mask = x.load(a.mask->buffer, at, a.mask_dtype);
      score = a.mask_dtype == TN_BOOL ? x.apply(TN_F_SELECT, TN_F32, mask, score, lowest)
                                      : x.apply(TN_F_ADD, TN_F32, score, mask);
    }
    if (!a.is_causal) return score;
    Id is_past = x.apply(TN_F_LE, TN_BOOL, x.index_value(key), x.index_value(row));
    return x.apply(TN_F_SELECT, TN_F32, is_past, score, lowest);
  }
  /// `v`, or `other` where it equals `special`.
  Id unless(Id v, Id special, double other) {
    Id is_special = x.apply(TN_F_EQ, TN_BOOL, v, special);
    return x.apply(TN_F_SELECT, TN_F32, is_special, x.number(other, TN_F32), v);
  }

  Loop loop(Fold fold, Id value, Id buffer) {
    Loop l;
    if (x.index_at(row).kind == IndexKind::variable) l.outer.push_back(row);
    (fold == Fold::none ? l.outer : l.reduced).push_back(key);
    l.fold = fold, l.value = value, l.buffer = buffer, l.name = "attention";
    l.index = fold == Fold::none ? index : row;
    return l;
  }
};

}  // namespace

AttentionKernel make_attention_kernel(Program& program, const Attention& a,
                                      const FusionOptions& options) {
  SoftmaxLoops s(program, a);
  Expressions& x = program.expressions;
  AttentionKernel out{{}, s.add_buffer("scores"), s.add_buffer("powers"), s.add_buffer("result")};
  Id highest = s.add_buffer("highest"), sum = s.add_buffer("sum");
  Id score = s.masked(x.load(out.scores, s.index, TN_F32));
  // A row that sees no key has -inf everywhere, and gives 0.
  Id top = s.unless(x.load(highest, s.row, TN_F32), s.lowest, 0);
  Id power = x.apply(TN_F_EXP, TN_F32, x.apply(TN_F_SUB, TN_F32, score, top));
  Id powers = x.load(out.powers, s.index, TN_F32);
  Id total = s.unless(x.load(sum, s.row, TN_F32), x.number(0.0, TN_F32), 1);
  Id inverse = x.apply(TN_F_DIV, TN_F32, x.number(1.0, TN_F32), total);
  Group group{{s.loop(Fold::maximum, score, highest), s.loop(Fold::none, power, out.powers),
               s.loop(Fold::sum, powers, sum),
               s.loop(Fold::none, x.apply(TN_F_MUL, TN_F32, powers, inverse), out.result)}};
  std::vector<bool> needed(program.buffers.size(), false);
  needed[out.powers] = needed[out.result] = true;
  out.kernel = make_kernel(program, std::move(group), needed, options);
  return out;
}

}  // namespace loopir
