// LU factors with partial pivoting.
#pragma once

#include "batches.h"

namespace lapack {

struct Factors {
  tensor lu, pivots, infos;
  Sizes batch;
};

/// P L U of each matrix; the matrices lie column by column, pivots count from 1. The info of a
/// matrix is the number of its first pivot that is 0, from 1.
Factors factored(const tn_tensor* a);
/// Like `factored`, of the transposes where the matrices lie row by row: a copy without turning
/// them. Says which by `transposed`. This is how ATen factors what it solves.
Factors factored_as_it_lies(const tn_tensor* a, bool& transposed);

}  // namespace lapack
