// Reading at index tensors: embeddings and gathers, with every index checked.
#include "loopir/lower/index_tensors.h"

namespace loopir {

using tenon::plugin::node;

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

Tensor index_tensor(Lowering& to, const tn_arg& a) {
  Tensor& t = *to.tensors[a.u.value];
  t = to.cheap(t, to.name_of(a.u.value).c_str());
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
    out.indices[d] = index_tensor(to, a);
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
  out.insert(out.begin() + static_cast<int64_t>(first), common.begin(), common.end());
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

bool embedding(Lowering& to, const node& n) {
  const Tensor table = to.tensor_arg(n.args[0]);
  if (!is_computing(table.dtype) || !is_integer(to.info(n.args[1].u.value).dtype)) return false;
  const Tensor indices = index_tensor(to, n.args[1]);
  auto v = to.info(n.first_result);
  to.set(n.first_result,
         to.make(v.dtype, to.arguments.indices_of(v.dims()), [&](std::span<const Id> i) {
           Id row = strictly_checked(to, to.at(indices, i.first(indices.ndim())), table.sizes[0]);
           return to.at(table, Ids{row, i.back()});
         }));
  return true;
}

bool gather(Lowering& to, const node& n) {
  const Tensor self = to.tensor_arg(n.args[0]);
  if (!is_computing(self.dtype) || self.ndim() == 0) return false;
  size_t dim = dimension(int_arg(n.args[1]), self.ndim());
  const Tensor index = index_tensor(to, n.args[2]);
  if (index.ndim() != self.ndim()) return false;
  to.set(n.first_result, to.make(self.dtype, index.sizes, [&](std::span<const Id> i) {
    Ids inner(i.begin(), i.end());
    inner[dim] = checked(to, to.at(index, i), self.sizes[dim]);
    return to.at(self, inner);
  }));
  return true;
}

bool index_select(Lowering& to, const node& n) {
  const Tensor self = to.tensor_arg(n.args[0]);
  if (!is_computing(self.dtype) || self.ndim() == 0) return false;
  size_t dim = dimension(int_arg(n.args[1]), self.ndim());
  const Tensor index = index_tensor(to, n.args[2]);
  auto v = to.info(n.first_result);
  to.set(n.first_result,
         to.make(v.dtype, to.arguments.indices_of(v.dims()), [&](std::span<const Id> i) {
           Ids inner(i.begin(), i.end()), at(index.ndim(), i[dim]);
           inner[dim] = strictly_checked(to, to.at(index, at), self.sizes[dim]);
           return to.at(self, inner);
         }));
  return true;
}

bool index_tensor(Lowering& to, const node& n) {
  const Tensor self = to.tensor_arg(n.args[0]);
  if (!is_computing(self.dtype) || n.args[1].kind != TN_ARG_VALUES) return false;
  auto how = AdvancedIndex::of(to, n.args[1], self.ndim());
  if (!how) return false;
  auto v = to.info(n.first_result);
  Ids sizes = to.arguments.indices_of(v.dims());
  to.set(n.first_result, to.make(v.dtype, sizes, [&](std::span<const Id> i) {
    return to.at(self, how->element(to, self.sizes, i, sizes));
  }));
  return true;
}

constexpr Rule index_table[] = {
    {"aten.embedding.default", embedding},       {"aten.gather.default", gather},
    {"aten.index_select.default", index_select}, {"aten.index.Tensor", index_tensor},
    {"aten._unsafe_index.Tensor", index_tensor},
};

}  // namespace

std::span<const Rule> index_rules() { return index_table; }

}  // namespace loopir
