// Kernels that one launch does.
//
// Problem: the step of an optimiser, and the sums at the end of a backward pass, are dozens of kernels
// that need nothing of each other: each is a launch, ends with a few blocks on a device that waits
// for them, and the smallest are three blocks on 132 multiprocessors. Method: kernels that stand side
// by side in the schedule, share no memory that one of them writes, and have blocks of one size
// become one launch, the blocks of one behind those of the other; members of one code have it in
// common and choose their parameters by the number of the block. Cost: linear in the kernels.
#pragma once

#include "executable.h"

namespace inductor_cuda {

/// The groups of a schedule whose kernels have their plans, in its order. Items of `is_static` are in
/// none.
std::vector<std::vector<size_t>> groups_of(Parts& parts, const std::vector<bool>& is_static);

}  // namespace inductor_cuda
