// In-place reuse: buffers in the memory of one that is read for the last time.
//
// Problem: a kernel that reads a and writes b needs both; where each element of b is made from the
// same element of a, one memory would do, and half the cache.
//
// Method: b may be where a was if the kernel is the last item that touches a, reads it only at the
// index at which it writes b, in no statement behind that one, and both have the same elements at
// the same places. In a step of several items (a region, whose chunks are at different items at the
// same time) nobody else may read a, unless the region wrote a itself: then it is read by rows, as
// it is written. Cost: linear in the accesses.
#pragma once

#include "kernel.h"

namespace loopir {

struct InPlaceRequest {
  Program& program;
  const std::vector<Item>& items;
  const std::vector<Access>& accesses;    // by item
  const std::vector<size_t>& steps;       // by item: its step
  const std::vector<bool>& is_prepacked;  // by item: it has memory of its own
};

/// For Program::memory_of.
Ids find_in_place_reuse(const InPlaceRequest& request);

}  // namespace loopir
