// Folding dimensions of a tensor: shared by the rules of reductions and of normalisations.
#pragma once

#include "loopir/lowering.h"

namespace loopir {

/// Which dimensions are folded.
struct Dimensions {
  std::vector<bool> folded;

  Dimensions(size_t ndim, std::span<const int64_t> dims);  // none: all
  Ids kept_sizes(const Tensor& t) const;
  Ids folded_sizes(const Tensor& t) const;
  /// Indices of the whole tensor.
  Ids joined(std::span<const Id> kept, std::span<const Id> folded_indices) const;
};

/// Elements before they are folded.
using Element = std::function<Id(Id element)>;

/// fold(element(t)) over the dimensions, in `dtype`; the folded dimensions are gone.
Tensor fold_dimensions(Lowering& to, const Tensor& t, const Dimensions& dims, Fold fold,
                       int32_t dtype, const std::string& name, const Element& element);

/// Mean and biased variance in the compute type, by two passes over the elements: the second sums
/// squares of differences, which loses nothing where the mean is large. `squares` is that sum.
struct Moments {
  Tensor mean, variance, squares;
};
Moments moments(Lowering& to, const Tensor& t, const Dimensions& dims, const std::string& name);
/// The mean as the host's kernel gives it: NaN where an element is infinite.
Tensor mean_of_finite(Lowering& to, const Moments& m, int32_t dtype);

/// How many elements are folded, as a number of `dtype`.
Id count_of(Lowering& to, const Tensor& t, const Dimensions& dims, int32_t dtype);

}  // namespace loopir
