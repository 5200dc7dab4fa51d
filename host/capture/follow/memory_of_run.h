// Which memory of the call the tensors of a run along a path lie in.
#pragma once

#include "capture/follow/position.h"

namespace tenon {

/// Whether a tensor of the call lies in the memory that the fake stands for.
bool lies_in(const Position& at, const Tensor& real, const Tensor& fake);
/// Whether no other tensor has a part in its memory.
inline bool is_alone_in_memory(const Tensor& t) {
  return impl_of(t)->storage_ref->references.load(std::memory_order_relaxed) == 1;
}
/// Throws UserError where one of the steps up to `end`, the next ones, writes what must not be written
/// with gradients on: no guard asks whether what comes is a leaf, or a view that was made without.
void check_writes(const Position& at, size_t end);
/// Where the tensor begins that the fake stands for.
int64_t offset_of(const Position& at, const Tensor& fake);

}  // namespace tenon
