// Memory by place: which values are laid out as promised, and as_strided of those.
#include "loopir/storage.h"

#include <algorithm>

namespace loopir {

using tenon::plugin::graph;
using tenon::plugin::node;

namespace {

template <class F>
void for_each_tensor(const graph& g, const node& n, F&& f) {
  auto see = [&](uint32_t v) {
    if (v != TN_NO_VALUE && g.value_at(v).is_tensor()) f(v);
  };
  for (const tn_arg& a : n.arguments()) {
    if (a.kind == TN_ARG_VALUE) see(a.u.value);
    for (uint32_t i = 0; a.kind == TN_ARG_VALUES && i < a.count; ++i) see(a.u.values[i]);
  }
}

/// Views are of their first operand.
uint32_t owner_of_storage(const graph& g, uint32_t value) {
  for (;;) {
    auto v = g.value_at(value);
    if (v.source != TN_SRC_NODE) return value;
    node n = g.at(v.source_index);
    bool is_view = (n.tags & TN_TAG_VIEW) && !(n.tags & TN_TAG_MAYBE_ALIAS);
    if (!is_view || n.n_args == 0 || n.args[0].kind != TN_ARG_VALUE) return value;
    value = n.args[0].u.value;
  }
}

bool is_computed(const Buffer& b) {
  return b.place != Buffer::Place::input && b.place != Buffer::Place::constant;
}

/// Whether the tensor is all of a buffer that was made for it alone, with those from `first_new` on:
/// a copy may still be read where its original lies, and the host's views are of other memory.
bool is_whole(Lowering& to, const View& view, Id first_new, const Ids& sizes, const Ids& strides) {
  const Buffer& b = to.program.buffers[view.buffer];
  if (view.buffer < first_new || !is_computed(b) || b.shows != none) return false;
  if (b.sizes != sizes || !to.x.is(view.offset, 0)) return false;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (!to.x.is(sizes[d], 1) && view.strides[d] != strides[d]) return false;
  return true;
}

/// How far behind the owner's first element the value begins.
Id offset_within(Lowering& to, uint32_t value, uint32_t owner) {
  auto offset_of = [&](uint32_t v) { return to.arguments.index_of(to.info(v).storage_offset); };
  return to.x.subtract(offset_of(value), offset_of(owner));
}

/// One behind the last element that the strides reach, where that is known.
std::optional<int64_t> end_of(const Expressions& x, Id first, const Ids& sizes,
                              const Ids& strides) {
  auto end = x.number_of(first);
  for (size_t d = 0; end && d < sizes.size(); ++d) {
    auto size = x.number_of(sizes[d]), stride = x.number_of(strides[d]);
    if (!size || !stride) return std::nullopt;
    *end += (*size - 1) * *stride;
  }
  return end ? std::optional(*end + 1) : std::nullopt;
}

// Of a computed value. An input's storage may reach beyond the input: that is the host's to see.
bool as_strided(Lowering& to, const node& n) {
  auto v = to.info(n.first_result);
  uint32_t owner = owner_of_storage(to.graph, n.args[0].u.value);
  const Tensor given = *to.tensors[owner];
  auto all = to.as_view(given);
  if (!all || given.dtype != v.dtype || !is_computed(to.program.buffers[all->buffer])) return false;
  Ids sizes = to.sizes_of(n.first_result), strides = to.arguments.indices_of(v.stride_dims());
  Id first = offset_within(to, n.first_result, owner);
  auto end = end_of(to.x, first, sizes, strides);
  auto all_end = end_of(to.x, all->offset, all->sizes, all->strides);
  if (!end || !all_end || *end > *all_end) return false;
  if (to.x.number_of(first) < to.x.number_of(all->offset)) return false;
  to.set(n.first_result, to.make(v.dtype, sizes, [&](std::span<const Id> indices) {
    Id at = first;
    for (size_t d = 0; d < indices.size(); ++d)
      at = to.x.add(at, to.x.multiply(indices[d], strides[d]));
    return to.x.load(all->buffer, at, v.dtype);
  }));
  ++to.program.views_removed;
  return true;
}

/// Whether the elements of a value fill the memory that its strides reach.
bool is_dense(Expressions& x, const Ids& sizes, const Ids& strides) {
  int64_t elements = 1;
  for (Id size : sizes) elements *= x.number_of(size).value_or(0);
  auto end = end_of(x, x.constant(0), sizes, strides);
  return elements > 0 && end == elements;
}

/// Whether no two elements of a view certainly lie at one place.
bool are_apart(const Expressions& x, const Ids& sizes, const Ids& strides) {
  std::vector<std::pair<int64_t, int64_t>> steps;  // strides, sizes
  for (size_t d = 0; d < sizes.size(); ++d) {
    auto size = x.number_of(sizes[d]), stride = x.number_of(strides[d]);
    if (!size || !stride) return false;
    if (*size > 1) steps.emplace_back(*stride, *size);
  }
  std::ranges::sort(steps);
  int64_t reach = 0;  // the last element's place so far
  for (auto [stride, size] : steps) {
    if (stride <= reach) return false;
    reach += (size - 1) * stride;
  }
  return true;
}

// Of a value that fills its memory, where the part lies within it, each element once: others are the
// host's.
bool as_strided_scatter(Lowering& to, const node& n) {
  Expressions& x = to.x;
  auto v = to.info(n.first_result), self = to.info(n.args[0].u.value);
  Ids sizes = to.sizes_of(n.first_result), strides = to.arguments.indices_of(v.stride_dims());
  bool keeps_places = is_computing(v.dtype) && is_dense(x, sizes, strides) &&
                      strides == to.arguments.indices_of(self.stride_dims());
  if (!keeps_places) return false;
  Ids spread = to.arguments.index_list(n.args[3]);
  Id begin = to.arguments.index_of(self.storage_offset);
  Id first = n.args[4].kind == TN_ARG_NONE ? x.constant(0)
                                           : x.subtract(to.arguments.index_arg(n.args[4]), begin);
  const Tensor given = to.tensor_arg(n.args[1]);
  auto end = end_of(x, first, given.sizes, spread), all = end_of(x, x.constant(0), sizes, strides);
  if (!end || *end > *all || *x.number_of(first) < 0 || !are_apart(x, given.sizes, spread))
    return false;
  std::string name = to.name_of(n.first_result);
  Id buffer = to.new_buffer(v.dtype, sizes, strides, name.c_str());
  Tensor out = to.stored(to.tensor_arg(n.args[0]), buffer, name.c_str());
  Tensor part = to.make(given.dtype, given.sizes,
                        [&](std::span<const Id> indices) { return to.at(given, indices); });
  store_by_strides(to, part, buffer, first, spread, name);
  to.set(n.first_result, out);
  return true;
}

constexpr Rule storage_table[] = {
    {"aten.as_strided.default", as_strided},
    {"aten.as_strided_scatter.default", as_strided_scatter},
};

}  // namespace

std::span<const Rule> storage_rules() { return storage_table; }

void store_by_strides(Lowering& to, const Tensor& part, Id buffer, Id first, const Ids& strides,
                      const std::string& name) {
  Expressions& x = to.x;
  Loop loop;
  loop.name = name;
  loop.buffer = buffer;
  loop.value = x.cast(part.value, to.program.buffers[buffer].dtype);
  loop.index = first;
  for (size_t d = 0; d < part.ndim(); ++d) {
    if (x.index_at(part.variables[d]).kind == IndexKind::variable)
      loop.outer.push_back(part.variables[d]);
    loop.index = x.add(loop.index, x.multiply(part.variables[d], strides[d]));
  }
  to.program.steps.push_back(std::move(loop));
}

bool looks_by_place(const graph& g, const node& n) {
  if (n.tags & TN_TAG_BY_PLACE) return true;
  bool is_view = n.tags & (TN_TAG_VIEW | TN_TAG_MAYBE_ALIAS);
  if (!is_view || n.n_results != 1 || n.n_args == 0 || n.args[0].kind != TN_ARG_VALUE) return false;
  int32_t seen = g.value_at(n.args[0].u.value).dtype;
  return is_computing(seen) && seen != g.value_at(n.first_result).dtype;
}

std::vector<bool> values_seen_by_place(const graph& g) {
  std::vector<bool> out(g.values(), false);
  for (uint32_t i = 0; i < g.size(); ++i) {
    node n = g.at(i);
    if (looks_by_place(g, n))
      for_each_tensor(g, n, [&](uint32_t v) { out[owner_of_storage(g, v)] = true; });
  }
  return out;
}

void lay_out_as_promised(Lowering& to, uint32_t value, Id first_new) {
  auto v = to.info(value);
  if (!v.is_tensor() || !to.tensors[value]) return;
  Ids sizes = to.sizes_of(value), strides = to.arguments.indices_of(v.stride_dims());
  auto view = to.as_view(*to.tensors[value]);
  if (view && is_whole(to, *view, first_new, sizes, strides)) return;
  std::string name = to.name_of(value);
  Id buffer = to.new_buffer(v.dtype, sizes, strides, name.c_str());
  to.tensors[value] = to.stored(*to.tensors[value], buffer, name.c_str());
}

View promised_view(Lowering& to, uint32_t value, const char* name) {
  uint32_t owner = owner_of_storage(to.graph, value);
  auto v = to.info(value);
  auto all = to.as_view(*to.tensors[owner]);
  bool is_within = all && is_computed(to.program.buffers[all->buffer]) &&
                   to.program.buffers[all->buffer].dtype == v.dtype;
  if (!is_within) return to.view_of(*to.tensors[value], name);
  return {all->buffer, to.x.add(all->offset, offset_within(to, value, owner)), to.sizes_of(value),
          to.arguments.indices_of(v.stride_dims())};
}

}  // namespace loopir
