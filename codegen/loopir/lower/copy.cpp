// Copies, fills, and tensors put together from parts.
#include "loopir/lowering.h"
#include "loopir/storage.h"

namespace loopir {

using tenon::plugin::node;

namespace {

bool is_all_computing(Lowering& to, const node& n) {
  for (uint32_t r = 0; r < n.n_results; ++r)
    if (!is_computing(to.info(n.first_result + r).dtype)) return false;
  for (const tn_arg& a : n.arguments())
    if (to.is_tensor(a) && !is_computing(to.info(a.u.value).dtype)) return false;
  return true;
}

bool clone(Lowering& to, const node& n) {
  if (!is_all_computing(to, n)) return false;
  to.set(n.first_result, to.tensor_arg(n.args[0]));  // a graph writes nothing: a copy is the same
  return true;
}

bool to_copy(Lowering& to, const node& n) {
  if (!is_all_computing(to, n)) return false;
  Tensor from = to.tensor_arg(n.args[0]);
  int32_t dtype = to.info(n.first_result).dtype;
  to.set(n.first_result, to.make(dtype, from.sizes, [&](std::span<const Id> indices) {
    return to.x.cast(to.at(from, indices), dtype);
  }));
  return true;
}

// copy(self, src): src in the shape and dtype of self
bool copy(Lowering& to, const node& n) {
  if (!is_all_computing(to, n)) return false;
  Tensor from = to.tensor_arg(n.args[1]);
  int32_t dtype = to.info(n.first_result).dtype;
  Ids sizes = to.sizes_of(n.first_result);
  to.set(n.first_result, to.make(dtype, sizes, [&](std::span<const Id> indices) {
    return to.x.cast(to.broadcast_at(from, indices, sizes), dtype);
  }));
  return true;
}

bool full(Lowering& to, const node& n) {
  if (!is_all_computing(to, n)) return false;
  int32_t dtype = to.info(n.first_result).dtype;
  Id number = to.arguments.number(n.args[1], dtype);
  to.set(n.first_result,
         to.make(dtype, to.sizes_of(n.first_result), [&](std::span<const Id>) { return number; }));
  return true;
}

bool scalar_tensor(Lowering& to, const node& n) {
  int32_t dtype = to.info(n.first_result).dtype;
  if (!is_computing(dtype) || !to.arguments.is_number(n.args[0])) return false;
  to.set(n.first_result, {dtype, {}, {}, to.arguments.number(n.args[0], dtype)});
  return true;
}

bool is_integer_arg(Lowering& to, const tn_arg& a) {
  return to.arguments.is_number(a) && to.arguments.dtype_of_number(a) == TN_I64;
}

bool arange(Lowering& to, const node& n) {
  int32_t dtype = to.info(n.first_result).dtype;
  if (!is_computing(dtype) || is_floating(dtype) || !is_integer_arg(to, n.args[0]) ||
      !is_integer_arg(to, n.args[2]))
    return false;
  Id start = to.arguments.index_arg(n.args[0]), step = to.arguments.index_arg(n.args[2]);
  to.set(n.first_result,
         to.make(dtype, to.sizes_of(n.first_result), [&](std::span<const Id> indices) {
           Id position = to.x.add(start, to.x.multiply(indices[0], step));
           return to.x.cast(to.x.index_value(position), dtype);
         }));
  return true;
}

/// Stores `part` into `buffer`, shifted by `start` and spread by `step` along `dim`.
void store_part(Lowering& to, const Tensor& part, Id buffer, size_t dim, Id start, Id step,
                const std::string& name) {
  Ids strides = to.program.buffers[buffer].strides;
  Id first = to.x.multiply(start, strides[dim]);
  strides[dim] = to.x.multiply(step, strides[dim]);
  store_by_strides(to, part, buffer, first, strides, name);
}

/// A value that loops may read again under other variables.
Tensor renamed(Lowering& to, const Tensor& t) {
  return to.make(t.dtype, t.sizes, [&](std::span<const Id> indices) { return to.at(t, indices); });
}

bool cat(Lowering& to, const node& n) {
  if (!is_all_computing(to, n) || n.args[0].kind != TN_ARG_VALUES) return false;
  auto v = to.info(n.first_result);
  size_t dim = dimension(int_arg(n.args[1]), static_cast<size_t>(v.ndim));
  std::string name = to.name_of(n.first_result);
  std::vector<Tensor> parts;
  for (uint32_t i = 0; i < n.args[0].count; ++i) {
    const Tensor& part = *to.tensors[n.args[0].u.values[i]];
    if (!is_computing(part.dtype)) return false;
    bool is_empty = part.ndim() == 1 && to.x.is(part.sizes[0], 0);  // ATen skips those
    if (!is_empty || v.ndim == 1) parts.push_back(renamed(to, part));
  }
  Ids sizes = to.arguments.indices_of(v.dims()), strides = to.contiguous(sizes);
  if (v.ndim == 4 && v.memory_format != 0 &&
      !to.x.is(to.arguments.indices_of(v.stride_dims())[3], 1))
    strides = to.channels_last(sizes);
  Id buffer = to.new_buffer(v.dtype, sizes, strides, name.c_str());
  Id start = to.x.constant(0);
  for (const Tensor& part : parts) {
    store_part(to, part, buffer, dim, start, to.x.constant(1), name);
    start = to.x.add(start, part.sizes[dim]);
  }
  to.set(n.first_result, to.over(buffer));
  return true;
}

/// self with `source` in the place of indices start, start + step, ... of `dim`.
void scatter_slice(Lowering& to, const node& n, const Tensor& source, size_t dim, Id start,
                   Id step) {
  std::string name = to.name_of(n.first_result);
  Tensor self = renamed(to, to.tensor_arg(n.args[0]));
  Id buffer = to.new_buffer(self.dtype, self.sizes, to.contiguous(self.sizes), name.c_str());
  store_part(to, self, buffer, dim, to.x.constant(0), to.x.constant(1), name);
  store_part(to, source, buffer, dim, start, step, name);
  to.set(n.first_result, to.over(buffer));
}

bool slice_scatter(Lowering& to, const node& n) {
  if (!is_all_computing(to, n)) return false;
  Tensor source = renamed(to, to.tensor_arg(n.args[1]));
  size_t dim = dimension(int_arg(n.args[2]), source.ndim());
  Id size = to.tensor_arg(n.args[0]).sizes[dim];
  scatter_slice(to, n, source, dim, to.arguments.start_arg(n.args[3], size),
                to.arguments.index_arg(n.args[5]));
  return true;
}

/// As a choice at each element: on a device launches and memory cost more. The gradients of the parts
/// of one tensor are a sum of such.
void chosen_at(Lowering& to, const node& n, const Tensor& given, size_t dim, Id position) {
  Expressions& x = to.x;
  const Tensor self = to.tensor_arg(n.args[0]);
  to.set(n.first_result, to.make(self.dtype, self.sizes, [&](std::span<const Id> i) {
    Ids inner(i.begin(), i.end());
    inner.erase(inner.begin() + static_cast<int64_t>(dim));
    Id is_there = x.apply(TN_F_EQ, TN_BOOL, x.index_value(i[dim]), x.index_value(position));
    Id value = to.at(given, inner);
    const ValueNode n = x.value_at(value);
    if (n.code == value_load && n.c == none) value = x.load(n.a, n.b, n.dtype, is_there);
    return x.apply(TN_F_SELECT, self.dtype, is_there, value, to.at(self, i));
  }));
}

bool select_scatter(Lowering& to, const node& n) {
  if (!is_all_computing(to, n)) return false;
  const Tensor self = to.tensor_arg(n.args[0]), given = to.tensor_arg(n.args[1]);
  size_t dim = dimension(int_arg(n.args[2]), self.ndim());
  Id position = to.arguments.position_arg(n.args[3], self.sizes[dim]);
  if (to.options.fold_blocks) {
    chosen_at(to, n, given, dim, position);
    return true;
  }
  Ids sizes = self.sizes;
  sizes[dim] = to.x.constant(1);
  Tensor source = to.make(self.dtype, sizes, [&](std::span<const Id> indices) {
    Ids inner(indices.begin(), indices.end());
    inner.erase(inner.begin() + static_cast<int64_t>(dim));
    return to.at(given, inner);
  });
  scatter_slice(to, n, source, dim, position, to.x.constant(1));
  return true;
}

/// low <= position < high, as far as that is not known.
Id within(Lowering& to, Id position, Id size, Id mask) {
  Expressions& x = to.x;
  auto both = [&](Id condition) {
    mask = mask == none ? condition : x.apply(TN_F_BAND, TN_BOOL, mask, condition);
  };
  Id p = x.index_value(position);
  if (x.range(position).lower < 0) both(x.apply(TN_F_GE, TN_BOOL, p, x.number(int64_t{0}, TN_I64)));
  if (!x.is_less(position, size)) both(x.apply(TN_F_LT, TN_BOOL, p, x.index_value(size)));
  return mask;
}

bool constant_pad(Lowering& to, const node& n) {
  if (!is_all_computing(to, n)) return false;
  const Tensor from = to.tensor_arg(n.args[0]);
  Ids pad = to.arguments.index_list(n.args[1]);
  Id fill = to.arguments.number(n.args[2], from.dtype);
  to.set(n.first_result,
         to.make(from.dtype, to.sizes_of(n.first_result), [&](std::span<const Id> indices) {
           Ids inner(indices.begin(), indices.end());
           Id mask = none;
           for (size_t i = 0; i < pad.size() / 2; ++i) {
             size_t d = inner.size() - 1 - i;
             inner[d] = to.x.subtract(inner[d], pad[2 * i]);
             mask = within(to, inner[d], from.sizes[d], mask);
           }
           Id value = to.at(from, inner);
           if (mask == none) return value;
           return to.x.apply(TN_F_SELECT, from.dtype, mask, to.x.masked(value, mask), fill);
         }));
  return true;
}

bool repeat(Lowering& to, const node& n) {
  if (!is_all_computing(to, n)) return false;
  const Tensor from = to.tensor_arg(n.args[0]);
  to.set(n.first_result,
         to.make(from.dtype, to.sizes_of(n.first_result), [&](std::span<const Id> indices) {
           std::span<const Id> last = indices.last(from.ndim());
           Ids inner(last.begin(), last.end());
           for (size_t d = 0; d < inner.size(); ++d) inner[d] = to.x.mod(inner[d], from.sizes[d]);
           return to.at(from, inner);
         }));
  return true;
}

// Sizes, strides and dtypes of a graph's values are guarded: what the op looks at cannot differ.
bool nothing_to_do(Lowering&, const node&) { return true; }

constexpr Rule copy_table[] = {
    {"aten._assert_tensor_metadata.default", nothing_to_do},
    {"aten.clone.default", clone},
    {"aten._to_copy.default", to_copy},
    {"aten.copy.default", copy},
    {"aten.full.default", full},
    {"aten.full_like.default", full},
    {"aten.fill.Scalar", full},
    {"aten.fill.Tensor", copy},
    {"aten.scalar_tensor.default", scalar_tensor},
    {"aten.arange.start_step", arange},
    {"aten.cat.default", cat},
    {"aten.slice_scatter.default", slice_scatter},
    {"aten.select_scatter.default", select_scatter},
    {"aten.constant_pad_nd.default", constant_pad},
    {"aten.repeat.default", repeat},
};

}  // namespace

std::span<const Rule> copy_rules() { return copy_table; }

}  // namespace loopir
