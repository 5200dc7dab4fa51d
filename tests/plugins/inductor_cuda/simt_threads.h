// The threads of a GPU as fibers of one thread: runs code of the architecture "simt".
//
// Problem: kernels have to be tested where there is no GPU. Model: a block's threads are fibers that
// switch where they wait for each other, at barriers and shuffles; blocks run one after the other.
// Every other block runs its threads backwards, so that code that lacks a barrier gives something
// else. Threads of kernels without barriers are plain calls.
#pragma once

#include <inductor_cuda/simt.h>

#include <cstddef>
#include <functional>
#include <string>

namespace simt {

struct Grid {
  uint32_t blocks = 1, threads = 1;  // threads of a block
  uint64_t shared_bytes = 0;
  bool cooperates = true;
};
/// Whether these bytes are memory of the device.
using MayTouch = std::function<bool(const void* address, size_t bytes)>;

/// Runs all threads. What one did wrong first (an access outside of memory, a race, a barrier that
/// others do not meet), or nothing; wrong reads give zeros.
std::string run(SimtKernel kernel, const Grid& grid, void* const* args, const MayTouch& may_touch);

}  // namespace simt
