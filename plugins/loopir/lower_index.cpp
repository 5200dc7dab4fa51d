// Reading at positions that are data: embeddings and gathers, with every position checked.
#include "lowering.h"

namespace loopir {

using tenon::plugin::node;
using tenon::plugin::sv;

namespace {

bool is_integer(int32_t dtype) { return dtype == TN_I64 || dtype == TN_I32; }

/// A position in [0, size) out of an index tensor's value; negative ones count from the end.
Id checked(Lowering& to, Id value, Id size) {
  Id wide = to.x.cast(value, TN_I64);
  return to.x.of_value(to.x.value({value_checked, TN_I64, wide, size, none}));
}

/// Whether positions of a dimension are looked at: where it has one element nothing depends on
/// them, but they must be checked all the same, which is left to the host's kernel.
bool is_indexed(Lowering& to, Id size) { return !to.x.is(size, 1); }

/// Positions are read by every element of what they select: they are not computed each time.
Tensor positions(Lowering& to, const tn_arg& a) {
  Tensor& t = *to.tensors[a.u.value];
  t = to.cheap(t, std::string(sv(to.info(a.u.value).name)).c_str());
  return t;
}

bool embedding(Lowering& to, const node& n) {
  const Tensor table = to.tensor_arg(n.args[0]);
  if (!is_computing(table.dtype) || !is_integer(to.info(n.args[1].u.value).dtype) ||
      !is_indexed(to, table.sizes[0]))
    return false;
  const Tensor indices = positions(to, n.args[1]);
  auto v = to.info(n.first_result);
  to.set(n.first_result, to.make(v.dtype, to.indices_of(v.dims()), [&](std::span<const Id> i) {
    Id row = checked(to, to.at(indices, i.first(indices.ndim())), table.sizes[0]);
    return to.at(table, Ids{row, i.back()});
  }));
  return true;
}

bool gather(Lowering& to, const node& n) {
  const Tensor self = to.tensor_arg(n.args[0]);
  if (!is_computing(self.dtype) || self.ndim() == 0) return false;
  size_t dim = to.dimension(to.int_arg(n.args[1]), self.ndim());
  if (!is_indexed(to, self.sizes[dim])) return false;
  const Tensor index = positions(to, n.args[2]);
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
  size_t dim = to.dimension(to.int_arg(n.args[1]), self.ndim());
  if (!is_indexed(to, self.sizes[dim])) return false;
  const Tensor index = positions(to, n.args[2]);
  auto v = to.info(n.first_result);
  to.set(n.first_result, to.make(v.dtype, to.indices_of(v.dims()), [&](std::span<const Id> i) {
    Ids inner(i.begin(), i.end()), at(index.ndim(), i[dim]);
    inner[dim] = checked(to, to.at(index, at), self.sizes[dim]);
    return to.at(self, inner);
  }));
  return true;
}

/// Which dimensions are indexed by tensors, and where the result has theirs.
struct AdvancedIndex {
  std::vector<std::optional<Tensor>> indices;  // by dimension of self
  size_t first = 0, rank = 0;                  // result dimensions of the index tensors

  static std::optional<AdvancedIndex> of(Lowering& to, const tn_arg& list, const Tensor& self) {
    AdvancedIndex out;
    out.indices.resize(self.ndim());
    std::vector<size_t> used;
    for (uint32_t d = 0; d < list.count; ++d) {
      if (list.u.values[d] == TN_NO_VALUE) continue;
      tn_arg a{};
      a.kind = TN_ARG_VALUE;
      a.u.value = list.u.values[d];
      if (!is_integer(to.info(a.u.value).dtype) || !is_indexed(to, self.sizes[d]))
        return std::nullopt;
      out.indices[d] = positions(to, a);
      out.rank = std::max(out.rank, out.indices[d]->ndim());
      used.push_back(d);
    }
    if (used.empty()) return std::nullopt;
    bool adjacent = used.back() - used.front() + 1 == used.size();
    out.first = adjacent ? used.front() : 0;
    return out;
  }
};

bool index_tensor(Lowering& to, const node& n) {
  const Tensor self = to.tensor_arg(n.args[0]);
  if (!is_computing(self.dtype) || n.args[1].kind != TN_ARG_VALUES) return false;
  auto how = AdvancedIndex::of(to, n.args[1], self);
  if (!how) return false;
  auto v = to.info(n.first_result);
  to.set(n.first_result, to.make(v.dtype, to.indices_of(v.dims()), [&](std::span<const Id> i) {
    std::span<const Id> common = i.subspan(how->first, how->rank);
    Ids inner;
    size_t next = 0;
    for (size_t d = 0; d < self.ndim(); ++d) {
      if (how->indices[d]) {
        inner.push_back(checked(to, to.broadcast_at(*how->indices[d], common), self.sizes[d]));
        continue;
      }
      if (next == how->first) next += how->rank;
      inner.push_back(i[next++]);
    }
    return to.at(self, inner);
  }));
  return true;
}

constexpr Rule rules[] = {
    {"aten.embedding.default", embedding},       {"aten.gather.default", gather},
    {"aten.index_select.default", index_select}, {"aten.index.Tensor", index_tensor},
    {"aten._unsafe_index.Tensor", index_tensor},
};

}  // namespace

std::span<const Rule> index_rules() { return rules; }

}  // namespace loopir
