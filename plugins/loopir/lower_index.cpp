// Reading at positions that are data: embeddings and gathers, with every position checked.
#include "positions.h"

namespace loopir {

using tenon::plugin::node;
using tenon::plugin::sv;

Id checked(Lowering& to, Id value, Id size) {
  Id wide = to.x.cast(value, TN_I64);
  return to.x.of_value(to.x.value({value_checked, TN_I64, wide, size, none}));
}
Id strictly_checked(Lowering& to, Id value, Id size) {
  Expressions& x = to.x;
  Id wide = x.cast(value, TN_I64);
  Id is_negative = x.apply(TN_F_LT, TN_BOOL, wide, x.number(int64_t{0}, TN_I64));
  return checked(to, x.apply(TN_F_SELECT, TN_I64, is_negative, x.index_value(size), wide), size);
}

Tensor positions(Lowering& to, const tn_arg& a) {
  Tensor& t = *to.tensors[a.u.value];
  t = to.cheap(t, std::string(sv(to.info(a.u.value).name)).c_str());
  return t;
}

std::optional<AdvancedIndex> AdvancedIndex::of(Lowering& to, const tn_arg& list, size_t ndim) {
  AdvancedIndex out;
  out.indices.resize(ndim);
  std::vector<size_t> used;
  for (uint32_t d = 0; d < list.count; ++d) {
    if (list.u.values[d] == TN_NO_VALUE) continue;
    if (d >= ndim || !is_integer(to.info(list.u.values[d]).dtype)) return std::nullopt;
    used.push_back(d);
  }
  if (used.empty()) return std::nullopt;
  for (size_t d : used) {
    tn_arg a{};
    a.kind = TN_ARG_VALUE;
    a.u.value = list.u.values[d];
    out.indices[d] = positions(to, a);
    out.rank = std::max(out.rank, out.indices[d]->ndim());
  }
  bool adjacent = used.back() - used.front() + 1 == used.size();
  out.first = adjacent ? used.front() : 0;
  return out;
}

Ids AdvancedIndex::sizes(Lowering& to, const Ids& self_sizes) const {
  Ids common(rank, to.x.constant(1)), out;
  for (const auto& t : indices)
    for (size_t d = 0; t && d < t->ndim(); ++d) {
      Id& size = common[rank - t->ndim() + d];
      if (!to.is_repeated(t->sizes[d], size)) size = t->sizes[d];
    }
  for (size_t d = 0; d < self_sizes.size(); ++d)
    if (!indices[d]) out.push_back(self_sizes[d]);
  out.insert(out.begin() + int64_t(first), common.begin(), common.end());
  return out;
}

Ids AdvancedIndex::element(Lowering& to, const Ids& self_sizes, std::span<const Id> i,
                           std::span<const Id> all_sizes) const {
  Ids inner;
  size_t next = 0;
  for (size_t d = 0; d < self_sizes.size(); ++d) {
    if (indices[d]) {
      Id position =
          to.broadcast_at(*indices[d], i.subspan(first, rank), all_sizes.subspan(first, rank));
      inner.push_back(checked(to, position, self_sizes[d]));
      continue;
    }
    if (next == first) next += rank;
    inner.push_back(i[next++]);
  }
  return inner;
}

namespace {

/// self[inner]. Nothing depends on a position in a dimension of one element, but it must be checked
/// all the same: the element is chosen by it, between itself and itself.
Id element_at(Lowering& to, const Tensor& self, const Ids& inner) {
  Expressions& x = to.x;
  Id out = to.at(self, inner);
  for (size_t d = 0; d < inner.size(); ++d) {
    if (!x.is(self.sizes[d], 1) || !x.reads_data(inner[d])) continue;
    Id is_first = x.apply(TN_F_EQ, TN_BOOL, x.index_value(inner[d]), x.number(int64_t{0}, TN_I64));
    out = x.apply(TN_F_SELECT, self.dtype, is_first, out, out);
  }
  return out;
}

bool embedding(Lowering& to, const node& n) {
  const Tensor table = to.tensor_arg(n.args[0]);
  if (!is_computing(table.dtype) || !is_integer(to.info(n.args[1].u.value).dtype)) return false;
  const Tensor indices = positions(to, n.args[1]);
  auto v = to.info(n.first_result);
  to.set(n.first_result, to.make(v.dtype, to.indices_of(v.dims()), [&](std::span<const Id> i) {
    Id row = strictly_checked(to, to.at(indices, i.first(indices.ndim())), table.sizes[0]);
    return element_at(to, table, Ids{row, i.back()});
  }));
  return true;
}

bool gather(Lowering& to, const node& n) {
  const Tensor self = to.tensor_arg(n.args[0]);
  if (!is_computing(self.dtype) || self.ndim() == 0) return false;
  size_t dim = to.dimension(to.int_arg(n.args[1]), self.ndim());
  const Tensor index = positions(to, n.args[2]);
  to.set(n.first_result, to.make(self.dtype, index.sizes, [&](std::span<const Id> i) {
    Ids inner(i.begin(), i.end());
    inner[dim] = checked(to, to.at(index, i), self.sizes[dim]);
    return element_at(to, self, inner);
  }));
  return true;
}

bool index_select(Lowering& to, const node& n) {
  const Tensor self = to.tensor_arg(n.args[0]);
  if (!is_computing(self.dtype) || self.ndim() == 0) return false;
  size_t dim = to.dimension(to.int_arg(n.args[1]), self.ndim());
  const Tensor index = positions(to, n.args[2]);
  auto v = to.info(n.first_result);
  to.set(n.first_result, to.make(v.dtype, to.indices_of(v.dims()), [&](std::span<const Id> i) {
    Ids inner(i.begin(), i.end()), at(index.ndim(), i[dim]);
    inner[dim] = strictly_checked(to, to.at(index, at), self.sizes[dim]);
    return element_at(to, self, inner);
  }));
  return true;
}

bool index_tensor(Lowering& to, const node& n) {
  const Tensor self = to.tensor_arg(n.args[0]);
  if (!is_computing(self.dtype) || n.args[1].kind != TN_ARG_VALUES) return false;
  auto how = AdvancedIndex::of(to, n.args[1], self.ndim());
  if (!how) return false;
  auto v = to.info(n.first_result);
  Ids sizes = to.indices_of(v.dims());
  to.set(n.first_result, to.make(v.dtype, sizes, [&](std::span<const Id> i) {
    return element_at(to, self, how->element(to, self.sizes, i, sizes));
  }));
  return true;
}

/// Where the indices of each bag begin and end.
struct Bags {
  Tensor offsets;
  Id n_indices, n_bags;
  bool has_last;  // the last offset is an end

  Id start(Lowering& to, Id bag) const { return offset(to, bag, none); }
  Id end(Lowering& to, Id bag) const {
    Expressions& x = to.x;
    Id next = x.add(bag, x.constant(1));
    if (has_last) return offset(to, next, none);
    Id is_inside = x.apply(TN_F_LT, TN_BOOL, x.index_value(next), x.index_value(n_bags));
    return x.apply(TN_F_SELECT, TN_I64, is_inside, offset(to, next, is_inside),
                   x.index_value(n_indices));
  }
  /// How many there are; an error where the offsets decrease.
  Id count(Lowering& to, Id bag) const {
    Expressions& x = to.x;
    Id first = start(to, bag), last = end(to, bag);
    Id too_many = x.add(n_indices, x.constant(1));
    Id n = x.apply(TN_F_SELECT, TN_I64, x.apply(TN_F_GE, TN_BOOL, last, first),
                   x.apply(TN_F_SUB, TN_I64, last, first), x.index_value(too_many));
    return x.of_value(x.value({value_checked, TN_I64, n, too_many, none}));
  }

 private:
  Id offset(Lowering& to, Id bag, Id mask) const {
    Id value = to.at(offsets, Ids{bag});
    if (mask != none) value = to.x.masked(value, mask);
    return to.x.cast(value, TN_I64);
  }
};

// Sums and means of rows: a fold whose length is data.
bool embedding_bag(Lowering& to, const node& n) {
  const Tensor table = to.tensor_arg(n.args[0]);
  int64_t mode = to.int_arg(n.args[4]);
  bool is_plain = mode <= 1 && !to.is_tensor(n.args[6]) && to.int_arg(n.args[8]) < 0;
  for (uint32_t r = 1; r < n.n_results; ++r)
    is_plain &= !to.reads[n.first_result + r] && !to.is_output[n.first_result + r];
  if (!is_plain || table.dtype != TN_F32 || to.x.is(table.sizes[0], 1) ||
      !is_integer(to.info(n.args[1].u.value).dtype) ||
      !is_integer(to.info(n.args[2].u.value).dtype))
    return false;
  Expressions& x = to.x;
  auto v = to.info(n.first_result);
  Ids sizes = to.indices_of(v.dims());
  if (x.is(sizes[0], 1) || x.is(to.tensor_arg(n.args[1]).sizes[0], 1))
    return false;  // no variable to depend on
  Tensor indices = to.realised(positions(to, n.args[1]), "indices");
  Tensor offsets = to.realised(positions(to, n.args[2]), "offsets");
  Bags bags{offsets, indices.sizes[0], sizes[0], to.int_arg(n.args[7]) != 0};
  Id bag = x.variable(sizes[0]), column = x.variable(sizes[1]);
  Id count = bags.count(to, bag);
  Id member = x.variable(count);
  Id position = x.add(x.of_value(bags.start(to, bag)), member);
  Id index = to.at(indices, Ids{checked(to, x.index_value(position), bags.n_indices)});
  Id element = to.at(table, Ids{strictly_checked(to, index, table.sizes[0]), column});
  std::string name(sv(v.name));
  Tensor sums = to.fold_over({bag, column}, {member}, Fold::sum, TN_F32, sizes, element, name);
  Id mean_of =
      x.apply(TN_F_MAX, TN_F32, x.cast(x.index_value(count), TN_F32), x.number(1.0, TN_F32));
  to.set(n.first_result, to.make(TN_F32, sizes, [&](std::span<const Id> i) {
    if (mode == 0) return to.at(sums, i);
    Id n_of = x.substitute(mean_of, {{bag, i[0]}});
    return x.apply(TN_F_DIV, TN_F32, to.at(sums, i), n_of);
  }));
  return true;
}

constexpr Rule rules[] = {
    {"aten._embedding_bag.default", embedding_bag},
    {"aten.embedding.default", embedding},
    {"aten.gather.default", gather},
    {"aten.index_select.default", index_select},
    {"aten.index.Tensor", index_tensor},
    {"aten._unsafe_index.Tensor", index_tensor},
};

}  // namespace

std::span<const Rule> index_rules() { return rules; }

}  // namespace loopir
