// Tensors that are written at scatter indices: shared by the rules that do so.
#pragma once

#include "loopir/lower/index_tensors.h"

#include <string>

namespace loopir {

using ValueAt = std::function<Id(std::span<const Id>)>;

/// A variable for each size.
Ids variables_for(Lowering& to, const Ids& sizes);

/// The tensor that is written, in the dtype in which its elements are combined: f32 for narrow
/// ones, so that each is rounded once; u8 for truth.
struct Target {
  Lowering& to;
  Expressions& x;
  uint32_t result;
  int32_t dtype;
  Ids sizes;
  std::string name;
  Id buffer = none;

  /// With the shape of a graph value.
  Target(Lowering& to, uint32_t result, Store store);
  /// With another shape.
  Target(Lowering& to, uint32_t result, int32_t dtype, Ids sizes);

  /// Whether indices into dimensions of these sizes can be right at all.
  bool has_places(std::span<const Id> of) const;
  /// What is there before.
  void fill(const ValueAt& value);
  void fill_with(const Tensor& t);
  void fill_with_zeros();
  /// Changes the element for every point of `outer` and, in order, of `reduced`. Indices of
  /// dimensions of size 1, which are not variables, may be among them.
  void write(Store store, const Ids& outer, const Ids& reduced, Id value, const Ids& element);

  Tensor written() const { return to.over(buffer); }
  /// The graph value in its dtype: as written, or made from that.
  void give();
  void give(const ValueAt& value);
};

/// How often each row of a table is named by `row`, which depends on `points`; those count for
/// which `is_counted` holds.
Tensor uses_of_rows(Lowering& to, uint32_t result, Id n_rows, const Ids& points, Id row,
                    Id is_counted);

}  // namespace loopir
