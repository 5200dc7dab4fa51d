// Which memory of the call the tensors of a run along a path lie in.
#pragma once

#include "capture/follow/position.h"

namespace tenon {

/// Whether a tensor of the call lies in the memory that the fake stands for.
bool lies_in(const Position& at, const Tensor& real, const Tensor& fake);
/// Throws UserError where an operation writes a leaf that needs a gradient, or a view of one: it may
/// have come for what was no leaf.
void check_leaf_writes(const Position& at, const CallArgs& call);
/// Where the tensor begins that the fake stands for.
int64_t offset_of(const Position& at, const Tensor& fake);

}  // namespace tenon
