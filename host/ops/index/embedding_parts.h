// The derivatives of embedding_bag as ops that can be differentiated again.
#pragma once

#include <tenon/tensor.h>
#include <tenon/types.h>

namespace tenon::ops {

/// The arguments that the backward ops of bags share. `bag_of` may be empty: `offsets` say it.
struct BagPlaces {
  const Tensor &indices, &offsets, &bag_of;
  int64_t padding;
};

/// How the rows of a bag become one.
struct BagFold {
  int64_t mode;  ///< 0 sum, 1 mean, 2 maximum
  bool scale_by_count;
  const Tensor& scales;          ///< undefined: none
  const Tensor &sizes, &chosen;  ///< of maxima: the sizes of bags, and which rows were taken
};

/// The gradient of a table of `n_rows` rows.
Tensor bag_backward_parts(const Tensor& grad, const BagPlaces& places, const BagFold& fold,
                          SymInt n_rows);
/// The gradient of the scale of each index.
Tensor bag_scales_backward_parts(const Tensor& grad, const Tensor& weight, const BagPlaces& places);

/// The derivative of embedding_dense_backward by its gradient.
Tensor embedding_dense_vjp(const Tensor& g, const Tensor& indices, SymInt padding);

}  // namespace tenon::ops
