// Advanced indexing, shared by index, index_put and their relatives.
//
// Model (ATen's): masks become index tensors; all index tensors broadcast to one shape B. Where the
//   indexed dimensions are neighbours, B takes their place in the result, else it comes first and
//   the indexed dimensions are moved to the front.
// Method: element b of B names an offset into the indexed dimensions (checked once), the dimensions
//   before and after are walked as they are.
#pragma once

#include "ops/kernel_loops.h"
#include "ops/shapes.h"

#include <vector>

namespace tenon::ops {

/// Where the result of `self[indices]` gets its elements.
struct IndexPlan {
  Tensor self;                  ///< a view with the indexed dimensions together
  std::vector<Tensor> indices;  ///< of the dimensions from `first` on, broadcast to one shape
  size_t first = 0;             ///< the first indexed dimension of `self`
  Dims index_sizes;             ///< B
  Dims sizes;                   ///< of the result
};

/// Works on fakes; masks on fakes get a size that only run time knows.
IndexPlan plan_index(const char* op, const Tensor& self, TensorList indices);

/// Sizes, dtype and ATen's strides of `self[indices]`.
TensorMeta index_meta(const IndexPlan& plan);

/// For each element of B its offset in `self`; negative indices count from the end. Throws for
/// those out of range.
std::vector<int64_t> index_offsets(const char* op, const IndexPlan& plan);

/// `body(self offset, operand offset, n, self step, operand step)` for runs over all elements of
/// the result, in row-major order for equal values of the dimensions before.
template <class F>
void for_each_indexed_run(const char* op, const IndexPlan& plan, IntList operand_strides,
                          const F& body) {
  std::vector<int64_t> offsets = index_offsets(op, plan);
  size_t n_index = plan.index_sizes.size(), n_indexed = plan.indices.size();
  Walk<2> before, after;
  Walk<1> middle;
  for (size_t d = 0; d < plan.sizes.size(); ++d) {
    int64_t size = plan.sizes[d].word();
    if (d < plan.first)
      before.add(size, {strides_of(plan.self)[d], operand_strides[d]});
    else if (d < plan.first + n_index)
      middle.add(size, {operand_strides[d]});
    else
      after.add(size, {strides_of(plan.self)[d - n_index + n_indexed], operand_strides[d]});
  }
  bool is_one_run = after.sizes.size() == 1;  // spares what a walk costs, as much as a short row
  for_each_offset(before, [&](const Offsets<2>& outer) {
    size_t b = 0;
    for_each_offset(middle, [&](const Offsets<1>& mid) {
      int64_t from = outer[0] + offsets[b++], to = outer[1] + mid[0];
      if (is_one_run)
        return body(from, to, after.sizes[0], after.strides[0][0], after.strides[0][1]);
      for_each_row(after, [&](const Offsets<2>& at, int64_t n, const Offsets<2>& step) {
        body(from + at[0], to + at[1], n, step[0], step[1]);
      });
    });
  });
}

/// Index tensors as i64, row-major; refuses other dtypes.
Tensor index_of(const char* op, const Tensor& index);
/// The same class numbers by a read of 0, 1, ..., which refuses negative ones and those too large.
Tensor classes_within(const Tensor& target, SymInt n_classes);
/// An index within [0, size), counted from the end where negative.
inline int64_t checked_index(const char* op, int64_t index, int64_t size) {
  require(index >= -size && index < size, "{}: index {} is out of range for a dimension of size {}",
          op, index, size);
  return index < 0 ? index + size : index;
}

}  // namespace tenon::ops
