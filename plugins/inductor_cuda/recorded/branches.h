// Which launches of a recording wait for which.
//
// Problem: in a recording, what needs nothing of each other may run at once, which pays where one
// launch fills a part of the device only: products of gradients, parts of attention, convolutions
// of one image. Each wait between launches costs time, too, and what runs at once needs memory at
// once.
//
// Method: a list schedule. Items, in their order, go to the ends of at most so many branches: to
// the one that they continue, if theirs is the longest way from there to the end of the graph, else
// to one whose last item is done anyway; else, where they are small, to a new one. Items of one
// branch follow each other. Ops of the host wait for all, and all waits for them; so do writes to
// inputs and uses of inputs, which may be views of each other.
// Cost: the square of the number of items, some 10 ns each.
#pragma once

#include "../machine.h"

#include <loopir/memory.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace inductor_cuda {

struct Parts;

struct Branches {
  uint32_t count = 1;
  std::vector<size_t> order;  // of the items that are launched
  std::vector<uint32_t> of;   // by item
  /// By item: those that it waits for, but for what one of these waits for.
  std::vector<std::vector<size_t>> after;
  loopir::DoneBefore done_before;  // empty: one branch
  std::vector<size_t> ends;        // items that nothing waits for
};

/// For the sizes seen while compiling; right for all others.
Branches branches_of(const Parts& parts, uint32_t most);

/// Whether there are several, and a recording for them.
bool is_branched(const Branches& branches, const Device& device, tn_stream* stream);
/// Each item behind those that it waits for, and what follows behind all of them.
void run_on_branches(const Branches& branches, const Device& device, tn_stream* stream,
                     const std::function<void(size_t)>& run_item);

}  // namespace inductor_cuda
