// Index tensors: shared by the rules that read at such indices and those that scatter.
#pragma once

#include "loopir/lowering.h"

namespace loopir {

inline bool is_integer(int32_t dtype) { return dtype == TN_I64 || dtype == TN_I32; }

/// An index in [0, size) out of an index tensor's value; negative ones count from the end.
Id checked(Lowering& to, Id value, Id size);
/// The same for ops that take no negative ones.
Id strictly_checked(Lowering& to, Id value, Id size);

/// An index tensor. It is read for every element of what it selects, so it is not computed each
/// time.
Tensor index_tensor(Lowering& to, const tn_arg& a);

/// Which dimensions are indexed by tensors, and where the result has theirs.
struct AdvancedIndex {
  std::vector<std::optional<Tensor>> indices;  // by dimension of self
  size_t first = 0, rank = 0;                  // result dimensions of the index tensors

  /// Nothing where one is a mask, or none is given.
  static std::optional<AdvancedIndex> of(Lowering& to, const tn_arg& list, size_t ndim);

  /// The element of `self` that the result's element `i` stands for.
  Ids element(Lowering& to, const Ids& self_sizes, std::span<const Id> i,
              std::span<const Id> sizes) const;
  /// Sizes of the result.
  Ids sizes(Lowering& to, const Ids& self_sizes) const;
};

}  // namespace loopir
