// Made-up inputs of models, the same in every build.
#pragma once

#include "formats/pt2/pt2_import.h"

#include <vector>

namespace tenon {

/// Normal numbers, integers from 0 to 9, or bools; the same for the same seed.
Tensor random_tensor(IntList sizes, Dtype dtype, uint64_t seed);

/// The same in memory of these strides.
Tensor random_tensor(IntList sizes, IntList strides, Dtype dtype, uint64_t seed);

/// Seeded inputs that fit the signature: normal numbers, small non-negative integers.
std::vector<Tensor> random_leaves(const formats::ImportedModel& model,
                                  const formats::Pt2Program& program, uint64_t seed = 0);

}  // namespace tenon
