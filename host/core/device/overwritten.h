// Results of recordings on a device whose memory a later run has taken: reading one is an error.
//
// Cost: two loads a tensor while there are none, which is nearly always.
#pragma once

#include <tenon/tensor.h>

#include <cstdint>

namespace tenon {

/// How many such results tensors still hold; null while nobody keeps recordings. Filled in, with the
/// next one, by backend/device_graphs.cpp.
extern const uint64_t* overwritten_results;
/// Throws UserError, with what made the result, if the tensor is one.
extern void (*check_result_slot)(const Tensor& t);

inline bool any_overwritten() {
  const uint64_t* n = __atomic_load_n(&overwritten_results, __ATOMIC_ACQUIRE);
  return n && __atomic_load_n(n, __ATOMIC_RELAXED) != 0;
}
inline void check_not_overwritten(const Tensor& t) {
  if (any_overwritten()) [[unlikely]]
    check_result_slot(t);
}

}  // namespace tenon
